# Deletes the instance $1 and everything that instance.sh has created for it.
name=$1
result=0
try() { "$@" > /dev/null || result=1; }
try openstack server delete --wait $name
addresses=$(openstack floating ip list --long -f value -c 'Floating IP Address' -c Description) || result=1
for address in $(echo "$addresses" | awk -v name=$name '$2 == name { print $1 }'); do
  try openstack floating ip delete $address
done
try openstack router remove subnet $name $name
try openstack router delete $name
try openstack network delete $name
try openstack security group delete $name
try openstack flavor delete $name
try openstack image delete $name $name-kernel $name-initrd
exit $result
