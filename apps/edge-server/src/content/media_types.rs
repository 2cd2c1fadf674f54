//! Media types of file name extensions where the common list has none, or one that is neither
//! registered (IANA) nor what players and browsers expect.

/// Returns the media type of an extension in lower case, if the common list is not to be asked.
pub fn of_extension(extension: &str) -> Option<&'static str> {
    Some(match extension {
        // HLS (RFC 8216, 4) and DASH (ISO/IEC 23009-1). In the common list `ts` is DLNA's.
        "m3u8" => "application/vnd.apple.mpegurl",
        "ts" | "m2t" | "m2ts" | "mts" => "video/mp2t",
        "m4s" => "video/iso.segment",

        // CMAF tracks (ISO/IEC 23000-19), Smooth Streaming, and the rest of MP4 (RFC 4337).
        "cmfv" | "m4v" | "mp4v" | "ismv" => "video/mp4",
        "cmfa" | "m4a" | "m4b" | "isma" => "audio/mp4",
        "cmft" | "cmfm" => "application/mp4",

        "mkv" => "video/matroska",
        "mk3d" => "video/matroska-3d",
        "mka" => "audio/matroska",
        "ac4" => "audio/ac4",
        "ec3" | "eac3" => "audio/eac3",
        "ttml" | "dfxp" => "application/ttml+xml",

        // RFC 9239 and RFC 8081.
        "mjs" | "cjs" => "text/javascript",
        "woff" => "font/woff",
        "otf" => "font/otf",

        "map" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "usdz" => "model/vnd.usdz+zip",
        "zst" => "application/zstd",
        _ => return None,
    })
}
