use super::*;
use osdpl_core::endpoint::{Login, Url};
use osdpl_values::Values;

const PERIOD: Duration = Duration::from_mins(1);

fn target(type_: &str, ready: i32) -> Target {
    let login: Values = serde_json::from_value(
        serde_json::json!({"endpoints": {"identity": {"auth": {"admin": {"password": "secret"}}}}}),
    )
    .unwrap();
    Target {
        application: type_.into(),
        service: format!("{type_}-api"),
        url: Url { tls: false, host: type_.into(), port: 80, path: "/".into() },
        accept: vec![200],
        versions: false,
        type_: type_.into(),
        registered: true,
        login: Login::of(&login).filter(|_| type_ == "identity"),
        state: vec![(1, ready)],
    }
}

fn wanted(targets: &[Target]) -> Wanted {
    targets.iter().map(|target| (Key::new("n", &target.type_), target.clone())).collect()
}

fn bad() -> Judgement {
    Judgement::Bad("503".into())
}

struct World {
    board: Board,
    now: Instant,
}

impl World {
    fn new(targets: &[Target]) -> Self {
        let mut board = Board::new(PERIOD);
        let now = Instant::now();
        board.want(&wanted(targets), now);
        Self { board, now }
    }

    /// Asks all that is due and answers with this. Returns who was asked, with a `+` where the catalogue was wanted.
    fn round(&mut self, judgement: &Judgement, types: Option<&[&str]>) -> Vec<String> {
        let due = self.board.due(self.now, 9);
        assert!(self.board.due(self.now, 9).is_empty(), "one question at a time");
        let mut asked = Vec::new();
        for Due { key, target, catalogue } in due {
            let wants = catalogue && target.login.is_some();
            asked.push(format!("{}{}", key.name, if wants { "+" } else { "" }));
            let types = types.filter(|_| wants).map(|types| types.iter().map(|type_| (*type_).to_owned()).collect());
            self.board.keep(Done { key, target, judgement: judgement.clone(), types }, self.now);
        }
        asked
    }

    fn after(&mut self, pause: Duration) -> &mut Self {
        self.now += pause;
        self
    }

    fn told(&self) -> Vec<(String, Option<String>)> {
        self.board.found().into_iter().map(|(key, seen)| (key.name, seen.trouble)).collect()
    }
}

#[test]
fn one_bad_answer_is_asked_again_soon_and_two_in_a_row_are_told_until_a_good_one() {
    let mut world = World::new(&[target("image", 1)]);
    assert_eq!(world.round(&bad(), None), ["image"]);
    assert_eq!((world.told(), world.round(&Judgement::Unreachable, None)), (vec![], vec![]));
    assert_eq!(world.after(AGAIN).round(&bad(), None), ["image"]);
    assert_eq!(world.told(), [("image".into(), Some("503".into()))]);
    assert_eq!(world.after(AGAIN).round(&Judgement::Well, None), ["image"]);
    assert_eq!(world.told(), [("image".into(), None)]);
    assert_eq!(world.after(AGAIN).round(&Judgement::Well, None), [""; 0], "calmly");
    assert_eq!(world.after(PERIOD).round(&Judgement::Well, None), ["image"]);
}

#[test]
fn what_can_not_be_connected_to_is_not_judged() {
    let mut world = World::new(&[target("image", 1)]);
    world.round(&Judgement::Well, None);
    assert_eq!(world.told().len(), 1);
    world.after(PERIOD).round(&Judgement::Unreachable, None);
    assert_eq!(world.told(), []);
}

#[test]
fn what_changed_is_asked_at_once_and_what_is_not_wanted_any_more_is_forgotten() {
    let mut world = World::new(&[target("image", 1)]);
    world.round(&Judgement::Well, None);
    world.board.want(&wanted(&[target("image", 2)]), world.now);
    assert_eq!(world.told().len(), 1, "what was known stays until then");
    assert_eq!(world.round(&Judgement::Well, None), ["image"]);
    world.board.want(&wanted(&[]), world.now);
    assert_eq!((world.told(), world.board.next()), (vec![], None));
}

#[test]
fn an_answer_to_what_was_asked_before_a_change_does_not_count() {
    let mut world = World::new(&[target("image", 1)]);
    let Due { key, target: old, .. } = world.board.due(world.now, 9).remove(0);
    world.board.want(&wanted(&[target("image", 2)]), world.now);
    world.board.keep(Done { key, target: old, judgement: Judgement::Well, types: None }, world.now);
    assert_eq!(world.told(), []);
    assert_eq!(world.round(&Judgement::Well, None), ["image"]);
}

#[test]
fn the_catalogue_is_read_when_someone_was_registered_when_it_lacks_someone_and_else_seldom() {
    let identity = || target("identity", 1);
    let mut world = World::new(&[identity()]);
    assert_eq!(world.round(&Judgement::Well, Some(&["identity"])), ["identity+"]);
    assert_eq!(world.after(PERIOD).round(&Judgement::Well, None), ["identity"]);
    world.board.want(&wanted(&[identity(), target("image", 1)]), world.now);
    assert_eq!(world.round(&Judgement::Well, Some(&["identity"])), ["identity+", "image"]);
    let lacks = "Keystone's catalogue has no endpoint of type \"image\"";
    assert_eq!(world.told(), [("identity".into(), None), ("image".into(), Some(lacks.into()))]);
    assert_eq!(world.after(PERIOD).round(&Judgement::Well, Some(&["identity", "image"])), ["identity+", "image"]);
    assert_eq!(world.told(), [("identity".into(), None), ("image".into(), None)]);
    assert_eq!(world.after(PERIOD).round(&Judgement::Well, None), ["identity", "image"]);
    assert_eq!(world.after(CATALOGUE).round(&Judgement::Well, None), ["identity+", "image"]);
}
