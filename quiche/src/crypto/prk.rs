//! Pseudorandom key from which labels are expanded: a secret as it is, or
//! HMAC's key once for several labels, which halves the work.

use std::ptr;
use std::ptr::NonNull;

use libc::c_uint;

use super::*;

/// Length of the longest hash of a TLS 1.3 cipher suite, in bytes.
const HASH_LEN_MAX: usize = 48;

/// A pseudorandom key (RFC 5869, 2).
pub(crate) trait Prk {
    /// Expands the key (HKDF-Expand, RFC 5869, 2.3).
    fn expand(&self, alg: Algorithm, out: &mut [u8], info: &[u8]) -> Result<()>;
}

impl<T: AsRef<[u8]> + ?Sized> Prk for T {
    fn expand(&self, alg: Algorithm, out: &mut [u8], info: &[u8]) -> Result<()> {
        hkdf_expand(alg, out, self.as_ref(), info)
    }
}

/// A secret as HMAC's key.
pub(crate) struct HmacKey(NonNull<HMAC_CTX>);

impl HmacKey {
    /// # Errors
    ///
    /// BoringSSL is out of memory.
    pub fn new(alg: Algorithm, secret: &[u8]) -> Result<Self> {
        let ctx = NonNull::new(unsafe { HMAC_CTX_new() });
        let key = Self(ctx.ok_or(Error::CryptoFail)?);

        let (bytes, len) = (secret.as_ptr().cast(), secret.len());
        let digest = alg.get_evp_digest();
        check(unsafe {
            HMAC_Init_ex(key.0.as_ptr(), bytes, len, digest, ptr::null_mut())
        })?;
        Ok(key)
    }
}

impl Prk for HmacKey {
    /// Returns the first block, which is all that QUIC needs.
    fn expand(&self, _: Algorithm, out: &mut [u8], info: &[u8]) -> Result<()> {
        const BLOCK: u8 = 1;

        let ctx = self.0.as_ptr();
        let mut hash = [0; HASH_LEN_MAX];
        let mut len = 0;
        unsafe {
            check(HMAC_Update(ctx, info.as_ptr(), info.len()))?;
            check(HMAC_Update(ctx, &BLOCK, 1))?;
            check(HMAC_Final(ctx, hash.as_mut_ptr(), &mut len))?;

            // Restarts with the same key.
            let null = ptr::null_mut();
            check(HMAC_Init_ex(ctx, null, 0, ptr::null(), null))?;
        }

        let hash = &hash[..len as usize];
        out.copy_from_slice(hash.get(..out.len()).ok_or(Error::CryptoFail)?);
        Ok(())
    }
}

impl Drop for HmacKey {
    fn drop(&mut self) {
        unsafe { HMAC_CTX_free(self.0.as_ptr()) }
    }
}

fn check(rc: c_int) -> Result<()> {
    match rc {
        1 => Ok(()),
        _ => Err(Error::CryptoFail),
    }
}

#[allow(non_camel_case_types)]
#[repr(transparent)]
struct HMAC_CTX {
    _unused: c_void,
}

extern "C" {
    fn HMAC_CTX_new() -> *mut HMAC_CTX;

    fn HMAC_CTX_free(ctx: *mut HMAC_CTX);

    fn HMAC_Init_ex(
        ctx: *mut HMAC_CTX, key: *const c_void, key_len: usize,
        digest: *const EVP_MD, engine: *mut c_void,
    ) -> c_int;

    fn HMAC_Update(ctx: *mut HMAC_CTX, data: *const u8, len: usize) -> c_int;

    fn HMAC_Final(
        ctx: *mut HMAC_CTX, out: *mut u8, out_len: *mut c_uint,
    ) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_key_expands_as_the_secret_does() {
        use Algorithm::*;

        for (alg, hash_len) in
            [(AES128_GCM, 32), (AES256_GCM, 48), (ChaCha20_Poly1305, 32)]
        {
            for secret in [vec![7; hash_len], vec![]] {
                let key = HmacKey::new(alg, &secret).unwrap();
                for (info, len) in
                    [("a", 12), ("ab", 16), ("a", hash_len), ("", 0)]
                {
                    let mut expanded = [[0; HASH_LEN_MAX]; 2];
                    let [of_key, of_secret] =
                        expanded.each_mut().map(|out| &mut out[..len]);
                    key.expand(alg, of_key, info.as_bytes()).unwrap();
                    secret.expand(alg, of_secret, info.as_bytes()).unwrap();
                    assert_eq!(of_key, of_secret, "{alg:?} {info} {len}");
                }
                let mut long = vec![0; hash_len + 1];
                assert!(key.expand(alg, &mut long, b"").is_err());
            }
        }
    }
}
