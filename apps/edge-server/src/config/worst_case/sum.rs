//! Sum of what all clients together can make the process keep. A test of hostile input includes
//! this file.

/// A connection whose client acknowledges nothing: its state, and records of packets that only
/// acknowledge the client's, as tests/hostile_input/without_acks.rs measures them.
const CONNECTION_BYTES: u64 = 400_000;

/// Part of the connections that there may be beyond the limit, while their handshakes are under way:
/// `admission/connection_limits.rs`.
const SURPLUS_DIVISOR: u64 = 8;

/// Records of the packets that carry a thousand bytes of responses.
const RECORDS_PER_1000_BYTES: u64 = 400;

/// What is not measured yet: `connection/kept.rs`.
const UNMEASURED_BYTES: u64 = 16 << 10;
const UNMEASURED_DIVISOR: u64 = 16;

/// Used tokens, socket buffers, queues.
const WORKER_BYTES: u64 = 32_000_000;

/// An entry of a store in memory.
const ENTRY_BYTES: u64 = 500;

/// Compressed variants that the cache keeps, and those that responses still have:
/// `content/compression/variant_cache.rs`.
const VARIANTS_MULTIPLE: u64 = 2;

/// Threads that compress, the variant that each makes, which doubles as it grows, and its encoder:
/// `content/compression`.
const COMPRESSORS: u64 = 2;
const COMPRESSOR_BYTES: u64 = 40_000_000;

/// Responses that the cache keeps, and those that are sent or on their way: `content/cache/store.rs`.
const RESPONSES_MULTIPLE: u64 = 2;

/// Returns what compression takes.
fn compression(cache_max: u64) -> u64 {
    let threads = if cache_max > 0 { COMPRESSORS * COMPRESSOR_BYTES } else { 0 };
    VARIANTS_MULTIPLE * cache_max + threads
}

/// Values of the options that bound memory.
pub struct Options {
    pub file_cache_max: u64,
    pub compression_cache_max: u64,
    pub cache_memory_max: u64,
    pub connections_max: u64,
    pub responses_memory_max: u64,
    pub requests_memory_max: u64,
    pub workers: u64,
    pub store_entries: u64,
}

/// One row of the table.
pub struct Row {
    pub what: String,
    pub options: &'static str,
    pub bytes: u64,
}

/// Returns the rows of the table.
pub fn rows(options: &Options) -> Vec<Row> {
    let connections = options.connections_max;
    let connections = connections + connections.div_ceil(SURPLUS_DIVISOR);
    let counted = options.responses_memory_max;
    let responses = counted + counted / UNMEASURED_DIVISOR;
    let counted = options.requests_memory_max;
    let requests = counted + counted / UNMEASURED_DIVISOR;
    vec![
        Row {
            what: "connections, and an eighth more with handshakes under way, 400 kB each if the client acknowledges nothing".to_owned(),
            options: "`--connections-max`",
            bytes: connections * CONNECTION_BYTES,
        },
        Row {
            what: "response data, a sixteenth that is not counted yet, and 400 bytes of records for each 1000".to_owned(),
            options: "`--responses-memory-max`",
            bytes: responses + responses / 1000 * RECORDS_PER_1000_BYTES,
        },
        Row {
            what: "request data, a sixteenth that is not counted yet, in buffers that double".to_owned(),
            options: "`--requests-memory-max`",
            bytes: 2 * requests,
        },
        Row {
            what: "other data that is not counted yet, 16 KiB for each connection".to_owned(),
            options: "`--connections-max`",
            bytes: connections * UNMEASURED_BYTES,
        },
        Row {
            what: "small files, and names that are not there".to_owned(),
            options: "`--file-cache-max`",
            bytes: options.file_cache_max,
        },
        Row {
            what: "compressed variants of files, as much again that responses still send, and two threads that compress, 40 MB each".to_owned(),
            options: "`--compression-cache-max`",
            bytes: compression(options.compression_cache_max),
        },
        Row {
            what: "responses of origins that are kept, and as much again that is sent or on its way".to_owned(),
            options: "`--cache-memory-max`",
            bytes: RESPONSES_MULTIPLE * options.cache_memory_max,
        },
        Row {
            what: format!("{} workers, 32 MB each", options.workers),
            options: "`--workers`",
            bytes: options.workers * WORKER_BYTES,
        },
        Row {
            what: "saved path state in memory, 500 bytes a subnet".to_owned(),
            options: "`--store-entries`",
            bytes: options.store_entries * ENTRY_BYTES,
        },
    ]
}
