use super::*;

#[tokio::test]
async fn a_chart_whose_reading_panics_is_blocked_with_a_word_and_not_for_ever_on_its_way() {
    let reading = async {
        let read = tokio::task::spawn_blocking(|| panic!("hunter2")).await;
        read.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
    };
    let Err(blocked) = caught::<Ready>(reading, "nova").await else { panic!("it is at hand") };
    assert_eq!(blocked.reason, osdpl_core::api::reason::CHART);
    assert!(blocked.message.starts_with("reading chart nova panicked, "), "{}", blocked.message);
    assert!(!blocked.message.contains("hunter2"), "{}", blocked.message);
}

#[test]
fn a_chart_that_changed_meanwhile_is_not_at_hand() {
    let fact = ChartInfo { digest: "new".into(), ..ChartInfo::default() };
    let state = State::Ready(Ready { path: "nova.tgz".into(), crds: Arc::new([]), fact });
    assert!(state.ready("new").is_some());
    assert!(state.ready("old").is_none());
    assert!(State::Pending.ready("").is_none());
}
