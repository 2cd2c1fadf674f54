//! Cache of compressed variants, bounded by bytes, and of files of which variants are useless.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::DefaultHashBuilder;
use quick_cache::OptionsBuilder;
use quick_cache::Weighter;
use ring::digest;

use crate::content::compression::counts;
use crate::content::compression::source::ContentIdentity;
use crate::http::content_coding::Coding;

/// What an entry takes besides its content, in bytes.
const ENTRY_BYTES: u64 = 300;

/// What an entry takes on average, as far as the number of entries is guessed by it.
const ENTRY_BYTES_GUESSED: u64 = 16 << 10;

/// Least size of a part of the cache that has its own lock, in bytes, and the most parts. A variant
/// must fit into one.
const SHARD_BYTES_MIN: u64 = 16 << 20;
const SHARDS_MAX: u64 = 16;

/// Bytes in memory, of variants that are kept and of those that responses still have, may be so many
/// times those of the cache.
const HELD_MULTIPLE: u64 = 2;

/// Key of a variant: what it is of, and how it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VariantKey {
    pub content: ContentIdentity,
    pub coding: Coding,
}

/// Compressed content.
#[derive(Clone, Debug)]
pub struct Variant {
    pub content: Bytes,

    /// Part of its entity tag that follows from the content: another version of an encoder makes
    /// other bytes of the same file.
    pub digest: String,
}

/// What is known of a variant.
#[derive(Clone, Debug)]
pub enum KeptVariant {
    Smaller(Variant),

    /// It would save too little.
    Useless,
}

/// Cache of all hosts.
#[derive(Debug)]
pub struct VariantCache {
    variants: Cache<VariantKey, KeptVariant, ByLength>,

    /// Length of the largest variant that it takes.
    variant_bytes_max: u64,

    /// Bytes in memory, and how many there may be.
    held: Arc<AtomicU64>,
    held_max: u64,
}

#[derive(Clone, Debug)]
struct ByLength;

/// Content that counts as long as it is in memory.
struct CountedBytes {
    bytes: Vec<u8>,
    held: Arc<AtomicU64>,
}

impl VariantCache {
    /// Returns an empty cache of so many bytes at most.
    pub fn new(bytes_max: u64) -> Self {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shards = 1 << shards.ilog2();
        let entries = usize::try_from(bytes_max / ENTRY_BYTES_GUESSED).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(entries.max(1))
            .weight_capacity(bytes_max)
            .shards(shards as usize)
            .build()
            .expect("all that is needed is there");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self {
            variants: Cache::with_options(options, ByLength, hasher, lifecycle),
            // The cache takes nothing that would fill almost all of a shard.
            variant_bytes_max: (bytes_max / shards / 10 * 9).saturating_sub(ENTRY_BYTES),
            held: Arc::default(),
            held_max: bytes_max.saturating_mul(HELD_MULTIPLE),
        }
    }

    /// Returns what is known of a variant.
    pub fn get(&self, key: &VariantKey) -> Option<KeptVariant> {
        self.variants.get(key)
    }

    /// Returns how long a variant may be, or `None` if what responses still have leaves no memory for
    /// one of so many bytes.
    pub fn room(&self, bytes: u64) -> Option<u64> {
        let bytes = bytes.min(self.variant_bytes_max);
        (self.held.load(Ordering::Relaxed) + bytes <= self.held_max).then_some(bytes)
    }

    /// Keeps a variant.
    pub fn insert(&self, key: VariantKey, mut content: Vec<u8>) {
        content.shrink_to_fit();
        let digest = digest::digest(&digest::SHA256, &content);
        let digest = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let content = Bytes::from_owner(CountedBytes::new(content, &self.held));
        self.variants.insert(key, KeptVariant::Smaller(Variant { content, digest }));
    }

    /// Remembers that a variant is useless.
    pub fn insert_useless(&self, key: VariantKey) {
        self.variants.insert(key, KeptVariant::Useless);
    }

    /// Returns the bytes in memory: of variants that are kept, and of those that responses still
    /// have.
    #[cfg(test)]
    pub fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the bytes that are kept.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> u64 {
        self.variants.weight()
    }
}

impl CountedBytes {
    fn new(bytes: Vec<u8>, held: &Arc<AtomicU64>) -> Self {
        held.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        counts::add_held(bytes.len());
        Self { bytes, held: Arc::clone(held) }
    }
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        counts::remove_held(self.bytes.len());
    }
}

impl Weighter<VariantKey, KeptVariant> for ByLength {
    fn weight(&self, _: &VariantKey, variant: &KeptVariant) -> u64 {
        ENTRY_BYTES
            + match variant {
                KeptVariant::Smaller(variant) => variant.content.len() as u64,
                KeptVariant::Useless => 0,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::content::file_identity::FileIdentity;

    /// Returns the key of the variant with this number.
    fn key(number: u64) -> VariantKey {
        let content = ContentIdentity::File(FileIdentity::numbered(number));
        VariantKey { content, coding: Coding::ALL[number as usize % 3] }
    }

    #[test]
    fn largest_variant_is_kept_by_a_cache_of_any_size() {
        for bytes_max in [1 << 10, 1 << 20, 64 << 20, 100 << 20, 300 << 20] {
            let cache = VariantCache::new(bytes_max);
            let length = cache.room(u64::MAX).unwrap();
            assert!(length > bytes_max.min(SHARD_BYTES_MIN) / 2, "{bytes_max}: {length}");
            for number in 0..20 {
                cache.insert(key(number), vec![0; length as usize]);
                assert!(cache.get(&key(number)).is_some(), "{bytes_max} {number}");
            }
        }
    }

    #[test]
    fn digest_follows_from_the_content() {
        let cache = VariantCache::new(1 << 20);
        let digest = |number, content: &[u8]| {
            cache.insert(key(number), content.to_vec());
            match cache.get(&key(number)) {
                Some(KeptVariant::Smaller(variant)) => variant.digest,
                other => panic!("{other:?}"),
            }
        };
        let first = digest(1, b"first");
        // SHA-256 of "first".
        assert_eq!(first, "a7937b64b8caa58f");
        assert_eq!(digest(2, b"first"), first);
        assert_ne!(digest(1, b"other"), first);
    }

    proptest! {
        // A response keeps the content of a variant that the cache has dropped.
        #[test]
        fn memory_is_bounded_whatever_is_kept_and_sent(
            steps in prop::collection::vec((0_u64..50, 0_usize..40_000, any::<bool>()), 1..300),
        ) {
            const BYTES_MAX: u64 = 200_000;
            let cache = VariantCache::new(BYTES_MAX);
            let mut sent = Vec::new();
            for (number, length, is_sent) in steps {
                match cache.room(length as u64) {
                    Some(room) if room >= length as u64 => cache.insert(key(number), vec![0; length]),
                    Some(_) => cache.insert_useless(key(number)),
                    None => sent.clear(),
                }
                if let Some(KeptVariant::Smaller(variant)) = cache.get(&key(number)) {
                    sent.extend(is_sent.then(|| variant.content.slice(..)));
                }
                prop_assert!(cache.kept_bytes() <= BYTES_MAX);
                prop_assert!(cache.held_bytes() <= HELD_MULTIPLE * BYTES_MAX);
            }
            drop(sent);
            prop_assert!(cache.held_bytes() <= cache.kept_bytes());
            let held = Arc::clone(&cache.held);
            drop(cache);
            prop_assert_eq!(held.load(Ordering::Relaxed), 0);
        }
    }
}
