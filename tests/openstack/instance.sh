# Creates an instance $1 with the system in /guest/image, and prints the instance's id and floating IP.
name=$1
image() { openstack image create -f value -c id "$@"; }
truncate -s 16M /tmp/$name
kernel=$(image --disk-format aki --container-format aki --file /guest/image/kernel $name-kernel)
initrd=$(image --disk-format ari --container-format ari --file /guest/image/initrd $name-initrd)
image=$(image --disk-format raw --container-format bare --file /tmp/$name --property kernel_id=$kernel \
  --property ramdisk_id=$initrd --property os_command_line='console=ttyS0 panic=1' $name)
rm /tmp/$name
{
  openstack flavor create --ram 256 --vcpus 1 --disk 1 $name
  openstack network create $name
  openstack subnet create --network $name --subnet-range 10.1.0.0/24 $name
  openstack router create --external-gateway public $name
  openstack router add subnet $name $name
  openstack security group create $name
  openstack security group rule create --protocol tcp $name
  openstack server create --wait --image $image --flavor $name --network $name --security-group $name $name
} > /dev/null
address=$(openstack floating ip create -f value -c floating_ip_address --description $name public)
openstack server add floating ip $name $address
openstack server show -f value -c id $name
echo $address
