//! Names of full pages: a page is named by its tokens and by the name of the page before it, so that equal names mean equal
//! contexts. It refuses to know where pages lie.

/// The name of a full page within everything that stands before it.
pub(crate) type Key = u128;

/// What stands before the first page.
pub(crate) const ROOT: Key = 0;

/// 128 bits of BLAKE3 over the name before and the tokens.
pub(crate) fn chain(parent: Key, tokens: &[u32]) -> Key {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&parent.to_le_bytes());
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    hasher.update(&bytes);
    let mut key = [0; 16];
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Key::from_le_bytes(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_tokens_order_and_what_stood_before() {
        let tokens: Vec<u32> = (0..64).collect();
        let mut swapped = tokens.clone();
        swapped.swap(3, 40);
        let name = chain(ROOT, &tokens);
        assert_eq!(name, chain(ROOT, &tokens));
        assert_ne!(name, chain(ROOT, &swapped));
        assert_ne!(name, chain(1, &tokens));
        assert_ne!(name, chain(ROOT, &tokens[..63]));
    }
}
