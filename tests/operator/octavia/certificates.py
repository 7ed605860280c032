# Checks that the files in the Secret octavia-amphora-certs meet the requirements of Octavia's guide. Standard input is
# the Secret as JSON; the argument is the passphrase of the CA's key.
import base64, json, sys

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

files = {name: base64.b64decode(text) for name, text in json.load(sys.stdin)['data'].items()}
passphrase = sys.argv[1].encode()
expected = ['client.cert-and-key.pem', 'client_ca.cert.pem', 'server_ca-chain.cert.pem', 'server_ca.cert.pem', 'server_ca.key.pem']
assert sorted(files) == expected, sorted(files)

servers, clients = (x509.load_pem_x509_certificate(files[name]) for name in ('server_ca.cert.pem', 'client_ca.cert.pem'))
for authority in (servers, clients):
    authority.verify_directly_issued_by(authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert authority.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
assert files['server_ca-chain.cert.pem'] == files['server_ca.cert.pem']
assert servers.public_key() != clients.public_key()

key = load_pem_private_key(files['server_ca.key.pem'], passphrase)
assert key.public_key() == servers.public_key()
try:
    load_pem_private_key(files['server_ca.key.pem'], None)
    sys.exit('server_ca.key.pem opens without a passphrase: it must be encrypted')
except TypeError:
    pass

both = files['client.cert-and-key.pem']
client = x509.load_pem_x509_certificate(both)
client.verify_directly_issued_by(clients)
assert load_pem_private_key(both[both.index(b'-----BEGIN PRIVATE KEY'):], None).public_key() == client.public_key()
assert not client.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
assert x509.ExtendedKeyUsageOID.CLIENT_AUTH in client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
