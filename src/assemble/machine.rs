//! What a model in this process is given by the machine: the user's folder for caches, where kernels are kept once they are compiled
//! for a card, and this very program, which is started again where a model is to have a process of its own. It refuses to know
//! what a kernel is.

use legwork_actors::local::LocalSettings;
use std::path::{Path, PathBuf};

/// The settings, with the folder for compiled kernels where they name none, and the program for a model's own process.
pub fn for_machine(mut settings: LocalSettings) -> LocalSettings {
    if settings.is_apart() && settings.program.is_none() {
        settings.program = std::env::current_exe().ok();
    }
    if settings.device.is_cards() && settings.kernels.is_none() {
        settings.kernels = folder(&|name| std::env::var(name).ok());
        if settings.kernels.is_none() {
            tracing::warn!("neither XDG_CACHE_HOME nor HOME names a folder: kernels are compiled anew in every run");
        }
    }
    settings
}

/// As the XDG base directory specification has it: a relative path is as good as none.
fn folder(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(caches.join(Path::new("legwork/kernels")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_kept_where_the_user_keeps_caches() {
        let of = |variables: &[(&str, &str)]| {
            let found = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
            folder(&found).map(|path| path.display().to_string())
        };
        let expected = |path: &str| Some(path.to_owned());
        assert_eq!(of(&[("HOME", "/h")]), expected("/h/.cache/legwork/kernels"));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), expected("/x/legwork/kernels"));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]), expected("/h/.cache/legwork/kernels"));
        assert_eq!(of(&[("HOME", "")]), None);
    }

    #[test]
    fn the_processor_keeps_none_and_a_named_folder_stays() {
        assert_eq!(for_machine(LocalSettings::default()), LocalSettings::default());
        let named = LocalSettings {
            device: "cuda:1".parse().unwrap(),
            kernels: Some(PathBuf::from("here")),
            program: Some(PathBuf::from("legwork")),
            ..LocalSettings::default()
        };
        assert_eq!(for_machine(named.clone()), named);
    }
}
