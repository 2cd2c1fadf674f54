//! Manual page and completions of a program, from its command line's definition: what packages install.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::io::Write;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// Option that asks for one of [`FORMS`]. Help does not show it: packages use it, not people.
const OPTION: &str = "--generate";
const FORMS: [(&str, Option<Shell>); 4] = [
    ("man", None),
    ("bash", Some(Shell::Bash)),
    ("zsh", Some(Shell::Zsh)),
    ("fish", Some(Shell::Fish)),
];

/// Returns the text that a command line of `--generate FORM` asks for, or what is wrong with the form, or
/// `None` if it is another command line.
pub fn text(
    args: &[OsString],
    command: impl FnOnce() -> Command,
) -> Option<Result<String, String>> {
    let (option, form) = (args.get(1)?, args.get(2).and_then(|form| form.to_str()));
    if option != OsStr::new(OPTION) {
        return None;
    }
    let known = FORMS.iter().find(|(name, _)| Some(*name) == form && args.len() == 3);
    let Some((_, shell)) = known else {
        let names = FORMS.map(|(name, _)| name).join(", ");
        return Some(Err(format!("{OPTION} takes one of {names}")));
    };
    let command = command();
    Some(Ok(match shell {
        Some(shell) => completions(*shell, command),
        None => manual(command).unwrap_or_default(),
    }))
}

fn completions(shell: Shell, mut command: Command) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns the page of a command and, below headings of their own, of its subcommands.
fn manual(mut command: Command) -> io::Result<String> {
    command.build();
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut page)?;
    }
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        add_subcommand(&mut page, subcommand)?;
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn add_subcommand(page: &mut Vec<u8>, command: &Command) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    writeln!(page, ".SH \"{}\"", name.to_uppercase())?;
    let man = Man::new(command.clone());
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_description_section(&mut sections)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut sections)?;
    }
    let sections = String::from_utf8_lossy(&sections).replace(".SH ", ".SS ");
    page.write_all(sections.as_bytes())?;
    let nested = command.get_subcommands().filter(|command| command.get_name() != "help");
    for subcommand in nested {
        add_subcommand(page, subcommand)?;
    }
    Ok(())
}
