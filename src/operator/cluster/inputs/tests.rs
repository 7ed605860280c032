use super::*;

#[test]
fn what_was_read_counts_until_something_else_is_read() {
    let broken = || Err(watcher::Error::NoResourceVersion);
    let data = Data::from([("key".to_owned(), b"value".to_vec())]);
    let mut state = State::default();
    assert!(state.hear(broken()));
    assert!(matches!(state, State::Failed(_)), "nothing was read yet");
    assert!(!state.hear(broken()), "what is refused again and again is news once");
    assert!(state.hear(Ok(Some(data.clone()))));
    assert!(!state.hear(broken()) && !state.hear(Ok(Some(data))), "it holds what it held");
    assert!(matches!(&state, State::Read(data) if data.contains_key("key")));
    assert!(state.hear(Ok(None)));
    assert!(!state.hear(broken()) && !state.hear(Ok(None)));
    assert!(matches!(state, State::Missing));
}

#[tokio::test]
async fn what_others_keep_is_watched_while_it_stands_in_place_of_what_is_wanted() {
    let silent = axum::Router::new().fallback(std::future::pending::<String>);
    let inputs = Inputs::new(kube::Client::new(silent, "cloud"), Arc::default());
    let reference =
        |name: &str| Reference { kind: ValuesKind::Secret, namespace: "openstack".into(), name: name.into() };
    let (pool, gone) = (reference("rbd-keyring"), reference("of-a-release-that-left"));
    let watched = || inputs.beside.lock().unwrap().keys().cloned().collect::<Vec<_>>();
    for one in [&pool, &gone] {
        inputs.watch_beside(one.clone(), true);
    }
    inputs.keep_beside(&[pool.clone()].into());
    assert_eq!(watched(), std::slice::from_ref(&pool));
    inputs.watch(&[pool].into());
    inputs.leave();
    assert!(watched().is_empty() && inputs.watched.lock().unwrap().is_empty());
}
