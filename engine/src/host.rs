//! Pages of paused sessions in host memory, up to a number of bytes; the longest unused goes first. It refuses to know what
//! the bytes mean and how they got here.

use crate::chain::Key;
use crate::pages::Name;
use crate::request::SessionId;
use legwork_kernels::HostBytes;
use std::collections::{BTreeSet, HashMap};

/// Sessions that a page is remembered to belong to; one of more is anybody's, and only leaves for want of room.
const OWNERS_MAX: usize = 64;

/// Pages in host memory.
#[derive(Debug)]
pub(crate) struct Host {
    pages: HashMap<Key, Kept>,
    by_use: BTreeSet<(u64, Key)>,
    clock: u64,
    bytes: usize,
    bytes_max: usize,
    evictions: u64,
}

#[derive(Debug)]
struct Kept {
    name: Name,
    bytes: HostBytes,
    owners: BTreeSet<SessionId>,
    used: u64,
}

impl Host {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { pages: HashMap::new(), by_use: BTreeSet::new(), clock: 0, bytes: 0, bytes_max, evictions: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing can ever be kept.
    pub(crate) fn is_off(&self) -> bool {
        self.bytes_max == 0
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Whether a page of that name is here, which belongs to this session too from now on.
    pub(crate) fn claim(&mut self, name: &Name, owner: SessionId) -> bool {
        match self.pages.get_mut(&name.key).filter(|kept| kept.name == *name) {
            Some(kept) => {
                if kept.owners.len() <= OWNERS_MAX {
                    kept.owners.insert(owner);
                }
                self.touch(name.key);
                true
            }
            None => false,
        }
    }

    /// Keeps a page, and gives up others when there is no room. False when it alone is too large.
    pub(crate) fn put(&mut self, name: Name, bytes: HostBytes, owner: SessionId) -> bool {
        if bytes.len() > self.bytes_max {
            return false;
        }
        let key = name.key;
        self.drop_page(key);
        while self.bytes + bytes.len() > self.bytes_max {
            let Some((_, oldest)) = self.by_use.first().copied() else { return false };
            self.drop_page(oldest);
            self.evictions += 1;
        }
        self.bytes += bytes.len();
        self.pages.insert(key, Kept { name, bytes, owners: BTreeSet::from([owner]), used: 0 });
        self.touch(key);
        true
    }

    /// The bytes of the page that holds these tokens after that parent.
    pub(crate) fn find(&mut self, key: Key, parent: Key, tokens: &[u32]) -> Option<&[u8]> {
        let kept = self.pages.get(&key)?;
        if kept.name.parent != parent || *kept.name.tokens != *tokens {
            return None;
        }
        self.touch(key);
        self.pages.get(&key).map(|kept| &*kept.bytes)
    }

    /// Gives up one page.
    pub(crate) fn drop_page(&mut self, key: Key) {
        if let Some(kept) = self.pages.remove(&key) {
            self.by_use.remove(&(kept.used, key));
            self.bytes -= kept.bytes.len();
        }
    }

    /// Gives up what belongs to this session alone.
    pub(crate) fn release(&mut self, owner: SessionId) {
        let alone =
            |kept: &mut Kept| kept.owners.len() <= OWNERS_MAX && kept.owners.remove(&owner) && kept.owners.is_empty();
        let gone: Vec<Key> = self.pages.iter_mut().filter_map(|(key, kept)| alone(kept).then_some(*key)).collect();
        gone.into_iter().for_each(|key| self.drop_page(key));
    }

    /// Gives up all pages.
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        self.by_use.clear();
        self.bytes = 0;
    }

    fn touch(&mut self, key: Key) {
        if let Some(kept) = self.pages.get_mut(&key) {
            self.clock += 1;
            self.by_use.remove(&(kept.used, key));
            kept.used = self.clock;
            self.by_use.insert((kept.used, key));
        }
    }

    /// Whether bytes, order and pages tell the same.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let bytes: usize = self.pages.values().map(|kept| kept.bytes.len()).sum();
        let ordered = self.pages.iter().all(|(key, kept)| self.by_use.contains(&(kept.used, *key)));
        match bytes == self.bytes && bytes <= self.bytes_max && ordered && self.by_use.len() == self.pages.len() {
            true => Ok(()),
            false => {
                Err(format!("host memory holds {bytes} bytes, counted {}, at most {}", self.bytes, self.bytes_max))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::ROOT;

    fn name(key: Key) -> Name {
        Name { key, parent: ROOT, tokens: Box::new([key as u32]) }
    }

    #[test]
    fn the_longest_unused_page_makes_room_and_what_is_larger_than_all_room_is_not_taken() {
        let mut host = Host::new(20);
        let one = SessionId(1);
        assert!(host.put(name(1), vec![1; 10].into(), one) && host.put(name(2), vec![2; 10].into(), one));
        assert_eq!(host.find(1, ROOT, &[1]), Some(&[1; 10][..]));
        assert!(host.put(name(3), vec![3; 10].into(), one));
        assert_eq!(host.find(2, ROOT, &[2]), None);
        assert_eq!((host.evictions(), host.bytes()), (1, 20));
        assert!(!host.put(name(4), vec![4; 21].into(), one));
        assert_eq!(host.find(1, ROOT, &[9]), None, "the key alone is no proof");
        host.audit().unwrap();
    }

    #[test]
    fn a_released_session_takes_along_what_is_nobody_elses() {
        let mut host = Host::new(100);
        host.put(name(1), vec![1; 10].into(), SessionId(1));
        host.put(name(2), vec![2; 10].into(), SessionId(1));
        assert!(host.claim(&name(2), SessionId(2)));
        host.release(SessionId(1));
        assert_eq!(host.find(1, ROOT, &[1]), None);
        assert_eq!(host.bytes(), 10);
        host.release(SessionId(2));
        assert_eq!(host.bytes(), 0);
        host.audit().unwrap();
    }
}
