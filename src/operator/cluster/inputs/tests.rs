use super::*;

#[test]
fn a_broken_watch_changes_nothing() {
    let broken = || Err(watcher::Error::NoResourceVersion);
    let data = Data::from([("key".to_owned(), b"value".to_vec())]);
    let mut state = State::default();
    assert!(hear(&mut state, broken()));
    assert!(matches!(state, State::Failed(_)), "nothing was read yet");
    assert!(!hear(&mut state, broken()), "what is refused again and again is news once");
    assert!(hear(&mut state, Ok(Some(data.clone()))));
    assert!(!hear(&mut state, broken()) && !hear(&mut state, Ok(Some(data))), "it holds what it held");
    assert!(matches!(&state, State::Read(data) if data.contains_key("key")));
    assert!(hear(&mut state, Ok(None)));
    assert!(!hear(&mut state, broken()) && !hear(&mut state, Ok(None)));
    assert!(matches!(state, State::Missing));
}

#[tokio::test]
async fn watches_exactly_what_is_requested() {
    let silent = axum::Router::new().fallback(std::future::pending::<String>);
    let inputs = Inputs::new(kube::Client::new(silent, "cloud"), Arc::default());
    let reference =
        |name: &str| Reference { kind: ValuesKind::Secret, namespace: "openstack".into(), name: name.into() };
    let (pool, other) = (reference("rbd-keyring"), reference("of-another-release"));
    let both = Requests { occupants: [pool.clone(), other].into(), ..Requests::default() };
    inputs.subscribe(&both);
    assert_eq!(inputs.snapshot().occupants.len(), 2);
    inputs.subscribe(&Requests { occupants: [pool.clone()].into(), objects: [pool.clone()].into(), ..both });
    let snapshot = inputs.snapshot();
    assert!(snapshot.occupants.keys().eq([&pool]) && snapshot.named[&pool] == State::Unread);
    inputs.subscribe(&Requests::default());
    assert!(inputs.snapshot().named.is_empty());
}
