//! stub
#[derive(clap::Args)]
pub struct Arguments {}
impl Arguments {
    pub async fn run(self) -> anyhow::Result<()> {
        Ok(())
    }
}
