//! `laio serve --explain`: what the server answers to a request, and why.

use super::config::Mistakes;
use crate::Failure;
use laio_serve::{Options, Question};
use std::io;
use std::net::IpAddr;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Operation")]
pub(super) struct ExplainArguments {
    /// Explain what these options answer to a GET of URL, and why, instead of serving: the host, the
    /// rules, the file, the status and the header fields.
    ///
    /// A path alone is one of `http://localhost`. The server's own code makes the answer; upstreams are not asked.
    #[arg(long, value_name = "URL", conflicts_with_all = ["check", "print_config"])]
    explain: Option<String>,
    /// Method of the request that --explain explains.
    #[arg(
        long,
        value_name = "METHOD",
        default_value = "GET",
        requires = "explain"
    )]
    explain_method: String,
    /// Header field of the request that --explain explains, such as 'Accept-Encoding: br'; may be
    /// repeated.
    #[arg(long, value_name = "NAME: VALUE", requires = "explain")]
    explain_header: Vec<String>,
    /// Address of the client whose request --explain explains [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", requires = "explain")]
    explain_client: Option<IpAddr>,
    /// Print the explanation as one JSON object.
    #[arg(long, requires = "explain")]
    explain_json: bool,
}

impl ExplainArguments {
    pub(super) fn is_asked(&self) -> bool {
        self.explain.is_some()
    }

    /// Returns the explanation as it is printed.
    ///
    /// # Errors
    /// When the request makes no sense, or a site cannot be served.
    pub(super) fn explained(&self, options: &Options) -> Result<String, Failure> {
        let question = self
            .question()
            .map_err(|error| Mistakes::from_error(&error))?;
        let explanation = laio_serve::explain(options, &question)?;
        Ok(if self.explain_json {
            explanation.json(&question)
        } else {
            explanation.text(&question)
        })
    }

    fn question(&self) -> io::Result<Question> {
        let url = self.explain.as_deref().unwrap_or_default();
        let mut question = Question::new(url)?.method(&self.explain_method)?;
        question.client = self.explain_client;
        let mut fields = self.explain_header.iter();
        fields.try_fold(question, |question, text| question.field(text))
    }
}
