//! Certificates for hosts of a test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a certificate and its key for `name`. Returns the certificate, in DER form.
pub fn certify(dir: &Path, name: &str) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    fs::write(dir.join(format!("{name}.pem")), made.cert.pem()).unwrap();
    let key = dir.join(format!("{name}.key"));
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    made.cert.der().to_vec()
}
