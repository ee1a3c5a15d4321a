//! The `tls-server-end-point` channel binding of RFC 5929: a hash of the
//! server's certificate by the hash its signature uses, or SHA-256 where that
//! is MD5 or SHA-1.

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

/// The hash, or `None` where the signature does not name its hash plainly
/// (RSA-PSS, Ed25519); PostgreSQL cannot bind those either.
pub fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = hash_of_signature(signature_algorithm(certificate)?)?;
    Some(digest(algorithm, certificate).as_ref().to_vec())
}

fn hash_of_signature(oid: &[u8]) -> Option<&'static Algorithm> {
    // 1.2.840.113549.1.1.x (RSA) and 1.2.840.10045.4.x (ECDSA), DER encoded.
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    if let Some(rsa) = oid.strip_prefix(RSA) {
        return match rsa {
            // With MD5, SHA-1, SHA-256.
            [4 | 5 | 11] => Some(&SHA256),
            [12] => Some(&SHA384),
            [13] => Some(&SHA512),
            _ => None,
        };
    }
    match oid.strip_prefix(ECDSA)? {
        // With SHA-1, SHA-256.
        [1] | [3, 2] => Some(&SHA256),
        [3, 3] => Some(&SHA384),
        [3, 4] => Some(&SHA512),
        _ => None,
    }
}

/// The OID in `Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm
/// SEQUENCE { algorithm OBJECT IDENTIFIER, … }, … }`.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (inside, _) = element(certificate, SEQUENCE)?;
    let (_, after_tbs) = element(inside, SEQUENCE)?;
    let (algorithm, _) = element(after_tbs, SEQUENCE)?;
    Some(element(algorithm, OBJECT_IDENTIFIER)?.0)
}

/// The common name of whom a certificate is for, as libpq and the server read it: the first one,
/// and none with a NUL in it, behind which another name could hide.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const INTEGER: u8 = 0x02;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    const VERSION: u8 = 0xa0;
    /// 2.5.4.3, DER encoded.
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    /// UTF8String, PrintableString, T61String and IA5String.
    const TEXTS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];
    let (inside, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(inside, SEQUENCE)?;
    if let Some((_, after)) = element(rest, VERSION) {
        rest = after;
    }
    (_, rest) = element(rest, INTEGER)?;
    // Signature, issuer, validity.
    for _ in 0..3 {
        (_, rest) = element(rest, SEQUENCE)?;
    }
    let (mut names, _) = element(rest, SEQUENCE)?;
    while !names.is_empty() {
        let (set, after) = element(names, SET)?;
        names = after;
        let (pair, _) = element(set, SEQUENCE)?;
        let (kind, value) = element(pair, OBJECT_IDENTIFIER)?;
        if kind == COMMON_NAME {
            let tag = value.first().filter(|tag| TEXTS.contains(tag))?;
            let (text, _) = element(value, *tag)?;
            let text = std::str::from_utf8(text).ok().filter(|text| !text.contains('\0'))?;
            return Some(text.to_owned());
        }
    }
    None
}

/// Contents of a DER element of the given tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    if found != tag {
        return None;
    }
    let mut length = usize::from(first & 0x7f);
    if first & 0x80 != 0 {
        let (bytes, after) = rest.split_at_checked(length)?;
        if bytes.len() > 4 {
            return None;
        }
        length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = after;
    }
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A certificate's skeleton with the signature algorithm given.
    fn certificate(oid: &[u8]) -> Vec<u8> {
        let mut algorithm = vec![0x06, oid.len() as u8];
        algorithm.extend(oid);
        let mut inside = vec![0x30, 0x81, 2, 0x05, 0x00, 0x30, algorithm.len() as u8];
        inside.extend(algorithm);
        let mut all = vec![0x30, 0x82, 0, inside.len() as u8];
        all.extend(inside);
        all
    }

    #[test]
    fn the_hash_follows_the_signature() {
        let length = |oid: &[u8]| server_end_point(&certificate(oid)).map(|hash| hash.len());
        let rsa = |last| length(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, last]);
        assert_eq!([rsa(5), rsa(11), rsa(12), rsa(13)], [Some(32), Some(32), Some(48), Some(64)]);
        assert_eq!(rsa(10), None, "RSA-PSS");
        assert_eq!(length(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3]), Some(48));
        assert_eq!(length(&[0x2b, 0x65, 0x70]), None, "Ed25519");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(der in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = server_end_point(&der);
            let _ = common_name(&der);
        }
    }
}
