//! Notes on a measurement, for its page.

use crate::path::PathSpec;
use crate::runner::Plan;
use crate::runner::PRISTINE;
use crate::runner::VISITS;
use crate::runner::VISIT_RUNS_MAX;

/// Returns the page's notes on the measurement.
pub fn about(plan: &Plan) -> Vec<String> {
    let mut about = vec![
        format!(
            "Downloads of each file over HTTP/3: {runs} with slow start and {runs} with Careful Resume \
             (RFC 9959), through a link emulator with the path's rate, RTT and {buffers}. Congestion \
             control: {cc}.",
            runs = plan.runs,
            buffers = buffers(&plan.paths),
            cc = plan.cc
        ),
        "Every download has a server, an emulator and a client process of its own. For Careful \
         Resume, a first connection downloaded at least 10 BDP and its path state was saved; \
         before each later connection the server was restarted and found that state on disk."
            .into(),
        format!(
            "Visits from an empty store are {VISITS} connections, each with a server of its own, that \
             download the file one after the other from a store that is empty at first; {} such \
             series a path.",
            plan.runs.min(VISIT_RUNS_MAX)
        ),
    ];
    if plan.early_data {
        about.push(
            "\u{201c}With early data\u{201d}, the client had the token and the session of an earlier \
             connection, and its request was in its first packets (0-RTT)."
                .into(),
        );
    }
    if plan.pristine_server.is_some() {
        about.push(format!(
            "\u{201c}{PRISTINE}\u{201d} is another server, run in turn with ours; its log was \
             not read."
        ));
    }
    about
}

/// Says how the paths queue packets.
fn buffers(paths: &[PathSpec]) -> String {
    let usual = "a drop-tail buffer of one bandwidth-delay product (BDP)";
    let own: Vec<String> = paths.iter().filter_map(own_buffer).collect();
    match own.is_empty() {
        true => usual.into(),
        false if own.len() == paths.len() => format!("buffer ({})", own.join("; ")),
        false => format!("{usual}, except {}", own.join("; ")),
    }
}

/// Names a path whose buffer, or anything else of its link, is its own.
fn own_buffer(path: &PathSpec) -> Option<String> {
    if path.own_buffer_bytes.is_none() && path.link_options.is_empty() {
        return None;
    }
    let bdp = path.buffer_bytes() as f64 / path.bdp_bytes().max(1) as f64;
    let has_queue = path.link_options.iter().any(|option| option == "--queue");
    let queue = if has_queue { "" } else { "drop-tail " };
    let options = match path.link_options.join(" ") {
        none if none.is_empty() => none,
        options => format!(", link-emulator {options}"),
    };
    Some(format!("{}: {queue}buffer of {bdp:.2} BDP{options}", path.title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::parse_own_path;
    use crate::path::PATHS;

    #[test]
    fn page_tells_each_buffer_that_is_not_the_usual_one() {
        let half = parse_own_path("100,60,0.5bdp,5MB").expect("a path");
        let mut marking = half.clone();
        marking.link_options = ["--queue", "step:5"].map(String::from).to_vec();
        let usual = "a drop-tail buffer of one bandwidth-delay product (BDP)";
        let title = "100 Mbit/s, 60 ms, buffer 0.5bdp, object 5MB";
        for (paths, said) in [
            (vec![PATHS[0].clone()], usual.to_owned()),
            (
                vec![half.clone(), marking],
                format!(
                    "buffer ({title}: drop-tail buffer of 0.50 BDP; {title}: buffer of 0.50 BDP, \
                     link-emulator --queue step:5)"
                ),
            ),
            (
                vec![PATHS[0].clone(), half],
                format!("{usual}, except {title}: drop-tail buffer of 0.50 BDP"),
            ),
        ] {
            assert_eq!(buffers(&paths), said);
        }
    }
}
