//! Settings of origins and their caches without the effect that they seem to have.

use anyhow::anyhow;

use crate::config::file::Host;
use crate::config::file::OriginRule;
use crate::config::Config;
use crate::content::cache::store;
use crate::content::origin::server::BODY_SECONDS;
use crate::content::origin::server::HEADER_SECONDS;

/// Returns a line for each such setting.
pub fn find(config: &Config) -> Vec<String> {
    // Hosts that have no origins of their own inherit those.
    let hosts = std::iter::once(config.file.default_host());
    let hosts = hosts.chain(config.file.named_alone().cloned());
    let mut lines: Vec<_> = hosts.flat_map(|host| gaps_of_host(config, &host)).collect();
    let flags = &config.flags;
    let all = flags.trusted_proxies.iter().find(|subnet| subnet.prefix_len() == 0);
    lines.extend(all.map(|subnet| {
        format!(
            "--trusted-proxies {subnet} has every client choose the address that it counts by; name your own \
             proxies alone"
        )
    }));
    if flags.cache_dir.is_some() && flags.cache_memory_max == 0 {
        lines.push(
            "--cache-dir has no effect with --cache-memory-max 0: responses go out from memory; \
             leave one of them out"
                .to_owned(),
        );
    }
    lines
}

fn gaps_of_host(config: &Config, host: &Host) -> Vec<String> {
    let rules = host.origin.iter().flatten();
    let line = |rule: &OriginRule, gap: String| {
        config.host_error(host, &anyhow!("origin: {gap}").context(rule.position)).to_string()
    };
    let gaps = rules.flat_map(|rule| {
        let gaps = [
            time_gap(config, rule),
            connect_gap(rule),
            memory_gap(config, rule),
            length_gap(config, rule),
        ];
        gaps.into_iter().flatten().map(|gap| line(rule, gap)).collect::<Vec<_>>()
    });
    gaps.collect()
}

/// Clients leave before the origin is given up, and get no error.
fn time_gap(config: &Config, rule: &OriginRule) -> Option<String> {
    let idle = config.flags.limits.idle_timeout;
    let times = [
        ("header-timeout", rule.header_timeout.unwrap_or(HEADER_SECONDS)),
        ("body-timeout", rule.body_timeout.unwrap_or(BODY_SECONDS)),
    ];
    let (name, seconds) = times.into_iter().find(|(_, seconds)| *seconds > idle)?;
    Some(format!(
        "{name} = {seconds} is more than --idle-timeout {idle}, after which a connection without packets \
         ends: its client gets no error of this server; lower it, or raise that"
    ))
}

/// A connection may take longer than the whole header.
fn connect_gap(rule: &OriginRule) -> Option<String> {
    let header = rule.header_timeout.unwrap_or(HEADER_SECONDS);
    let connect = rule.connect_timeout.filter(|connect| *connect > header)?;
    Some(format!(
        "connect-timeout = {connect} has no effect: header-timeout {header} is over before; lower it, or \
         raise that"
    ))
}

/// A cache without memory.
fn memory_gap(config: &Config, rule: &OriginRule) -> Option<String> {
    let has_none = rule.cache.is_some() && config.flags.cache_memory_max == 0;
    has_none.then(|| {
        "cache has no effect with --cache-memory-max 0; raise that, or leave it out".to_owned()
    })
}

/// A length that the cache does not take.
fn length_gap(config: &Config, rule: &OriginRule) -> Option<String> {
    let cache = rule.cache.as_ref()?;
    let memory_max = config.flags.cache_memory_max;
    let most = store::object_bytes_max(memory_max);
    let lengths =
        [("object-bytes-max", cache.object_bytes_max), ("slice-bytes", cache.slice_bytes)];
    let longer = lengths.into_iter().find_map(|(name, bytes)| Some((name, bytes?)));
    let (name, bytes) = longer.filter(|(_, bytes)| *bytes > most && memory_max > 0)?;
    Some(format!(
        "cache: {name} = {bytes} has no effect: --cache-memory-max {memory_max} takes {most} of one \
         response; lower it, or raise that"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_effect_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (dir.path().to_str().unwrap(), dir.path().join("edge.toml"));
        let memory = &["--cache-memory-max", "1000000"][..];
        for (toml, options, expected) in [
            ("cache = true", &[][..], &[][..]),
            ("body-timeout = 30", &[], &[]),
            (
                "body-timeout = 31",
                &[],
                &["origin: body-timeout = 31 is more than --idle-timeout 30"],
            ),
            (
                "body-timeout = 5",
                &["--idle-timeout", "10"],
                &["origin: header-timeout = 20 is more"],
            ),
            ("connect-timeout = 20", &[], &[]),
            (
                "connect-timeout = 21",
                &[],
                &["origin: connect-timeout = 21 has no effect: header-timeout 20 is over before"],
            ),
            (
                "connect-timeout = 3\nheader-timeout = 2",
                &[],
                &["origin: connect-timeout = 3 has no effect: header-timeout 2 "],
            ),
            ("header-timeout = 2", &[], &[]),
            ("cache = { object-bytes-max = 250000 }", memory, &[]),
            (
                "cache = { object-bytes-max = 250001 }",
                memory,
                &["cache: object-bytes-max = 250001 has"],
            ),
            ("cache = { slice-bytes = 262144 }", memory, &["cache: slice-bytes = 262144 has no"]),
            ("cache = true", &["--trusted-proxies", "10.0.0.0/8"], &[]),
            (
                "cache = true",
                &["--trusted-proxies", "10.0.0.0/8", "--trusted-proxies", "::/0"],
                &["--trusted-proxies ::/0 has every client choose"],
            ),
            (
                "cache = true",
                &["--cache-memory-max", "0", "--cache-dir", "/x"],
                &[
                    "origin: cache has no effect with --cache-memory-max 0; raise that, or",
                    "--cache-dir has no effect with --cache-memory-max 0",
                ],
            ),
        ] {
            let origin = format!("[[host.origin]]\nurl = 'http://127.0.0.1:1'\n{toml}\n");
            for (start, place) in
                [("[[host]]\n", "line 2"), ("[[host]]\nnames = ['a']\n", "[[host]] a, line 3")]
            {
                std::fs::write(&file, format!("{start}{origin}")).unwrap();
                let words = ["edge-server", "--listen", "127.0.0.1:0", "--root", root, "--config"];
                let words = words.into_iter().chain(file.to_str()).chain(options.iter().copied());
                let found = find(&crate::config::parse(words).unwrap());
                let is_told = |(line, expected): (&String, &&str)| {
                    line.contains(*expected) && (line.contains(place) || expected.starts_with("--"))
                };
                let all = found.len() == expected.len() && found.iter().zip(expected).all(is_told);
                assert!(all, "{toml} {options:?}: {found:?}");
            }
        }
    }
}
