# Runs an LDAP server with the user ada, who is a member of the group engineers. PASSWORD is the password of the
# server's administrator and of the user.
set -eu
mkdir -p /tmp/ldap/data
hash=$(slappasswd -s "$PASSWORD")
cat > /tmp/ldap/slapd.conf <<END
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile /tmp/ldap/slapd.pid
database mdb
directory /tmp/ldap/data
suffix dc=example,dc=org
rootdn cn=admin,dc=example,dc=org
rootpw $hash
END
slapadd -f /tmp/ldap/slapd.conf <<END
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: cn=ada,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
cn: ada
sn: ada
userPassword: $hash

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=engineers,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: engineers
ou: engineers
member: cn=ada,ou=people,dc=example,dc=org
END
exec slapd -f /tmp/ldap/slapd.conf -h ldap:/// -d stats
