//! Where to listen: the arguments, and how it is told.

use laio_serve::{Listen, ListenAddress};

#[derive(Debug, clap::Args)]
pub(super) struct ListenArguments {
    /// Where to listen, several times if need be: ADDRESS:PORT, where port 0 takes a free one;
    /// unix:PATH[,mode=660]; or systemd[:NAME] for sockets that were passed on [default: systemd if there are
    /// such, else 127.0.0.1:8080]
    #[arg(long, value_name = "WHERE")]
    listen: Vec<Listen>,
}

impl ListenArguments {
    pub(super) fn places(self) -> Vec<Listen> {
        if !self.listen.is_empty() {
            return self.listen;
        }
        laio_serve::Options::default().listen
    }
}

/// What to give to a browser; of what no browser takes, what it is.
pub(super) fn shown(listen: &Listen) -> String {
    let scheme = if listen.tls { "https" } else { "http" };
    match &listen.address {
        ListenAddress::Inet(address) => format!("{scheme}://{address}/"),
        _ => listen.to_string(),
    }
}
