//! Configuration file: one that is accepted can be used.
#![no_main]

use std::path::Path;

use fuzz::config::file::ConfigFile;
use fuzz::content::rules::Rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let name = format!("/dev/shm/fuzz-configuration-{}", std::process::id());
    let path = Path::new(&name);
    std::fs::write(path, data).unwrap();
    let read = ConfigFile::read(path);
    std::fs::remove_file(path).unwrap();
    match read {
        Ok(file) => {
            for host in file.named().chain([file.default_host()]) {
                let _ = Rules::new(&host);
            }
        }
        Err(error) => assert!(!format!("{error:#}").contains('\n'), "{error:#}"),
    }
});
