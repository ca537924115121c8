use super::*;

type Link = super::Link<u64>;
type Action = super::Action<u64>;

const SECOND: Duration = Duration::from_secs(1);

fn welcome(requests: u32, credit: u32) -> Frame {
    let place = "there".to_owned();
    Frame::new(0, Message::Welcome { version: VERSION, place, session: 9, requests, credit })
}

fn ready(requests: u32, credit: u32) -> Link {
    let mut link = Link::new("kiln://far:1", "there", Duration::ZERO);
    let actions = link.handle(Duration::ZERO, Event::Connected);
    assert!(matches!(actions[..], [Action::Send { session: 0, .. }]));
    let actions = link.handle(Duration::ZERO, Event::Frame(welcome(requests, credit)));
    assert!(matches!(actions[..], [Action::Session(9)]));
    link
}

fn ask(link: &mut Link, token: u64, message: Message) -> Vec<Action> {
    link.handle(Duration::ZERO, Event::Request(Request::new(token, message, SECOND)))
}

fn read(len: u32) -> Message {
    Message::Read { handle: 1, offset: 0, len }
}

fn sent(actions: &[Action]) -> Vec<u64> {
    let id = |action: &Action| match action {
        Action::Send { session: 9, frame } => Some(frame.id),
        _ => None,
    };
    actions.iter().filter_map(id).collect()
}

fn reply(link: &mut Link, id: u64) -> Vec<Action> {
    link.handle(Duration::ZERO, Event::Frame(Frame::new(id, Message::Data {})))
}

#[test]
fn questions_keep_within_the_credit() {
    let mut link = ready(10, 100);
    assert_eq!(sent(&ask(&mut link, 1, read(60))), [1]);
    assert!(ask(&mut link, 2, read(60)).is_empty());
    assert!(ask(&mut link, 3, read(10)).is_empty(), "nothing overtakes, or large reads starve");
    let actions = reply(&mut link, 1);
    assert!(matches!(actions[0], Action::Answer { token: 1, answer: Ok(_) }));
    assert_eq!(sent(&actions), [2, 3]);
    let mut link = ready(2, 100);
    ask(&mut link, 1, read(1));
    ask(&mut link, 2, read(1));
    assert!(ask(&mut link, 3, read(1)).is_empty());
    assert_eq!(sent(&reply(&mut link, 2)), [3]);
}

#[test]
fn clients_overtake_repair() {
    let mut link = ready(1, 100);
    ask(&mut link, 1, read(1));
    let mut repair = Request::new(2, read(1), SECOND);
    repair.priority = Priority::Repair;
    link.handle(Duration::ZERO, Event::Request(repair));
    ask(&mut link, 3, Message::Sync { handle: 1 });
    let actions = reply(&mut link, 1);
    let Action::Send { frame, .. } = &actions[1] else { panic!("{actions:?}") };
    assert!(matches!(frame.message, Message::Sync { .. }));
}

#[test]
fn late_answers_are_given_up_but_keep_their_credit_until_they_come() {
    let mut link = ready(10, 100);
    ask(&mut link, 1, read(100));
    ask(&mut link, 2, read(50));
    assert_eq!(link.wake_at(), SECOND);
    let actions = link.handle(SECOND, Event::Tick);
    for token in [2, 1] {
        assert!(actions.iter().any(|action| matches!(action,
            Action::Answer { token: t, answer: Err(NetError::Late { .. }) } if *t == token)));
    }
    assert!(actions.iter().any(|action| matches!(action,
        Action::Send { frame, .. } if frame.message == Message::Cancel { request: 1 })));
    assert!(ask(&mut link, 3, read(1)).is_empty());
    assert_eq!(sent(&reply(&mut link, 1)).len(), 1);
}

#[test]
fn a_silent_peer_is_asked_and_then_taken_for_dead() {
    let mut link = ready(10, 100);
    let patient = Request::new(1, Message::Lock { wait: true }, Duration::ZERO);
    link.handle(Duration::ZERO, Event::Request(patient));
    assert_eq!(link.wake_at(), QUIET);
    let actions = link.handle(QUIET, Event::Tick);
    assert!(matches!(&actions[..], [Action::Send { frame, .. }]
        if frame.message == Message::Ping {}));
    assert_eq!(link.wake_at(), DEAD);
    let actions = link.handle(DEAD, Event::Tick);
    assert!(matches!(
        actions[..],
        [Action::Answer { token: 1, answer: Err(NetError::Late { .. }) }, Action::Close]
    ));
    assert!(link.has_ended());
}

#[test]
fn while_it_connects_nothing_is_due_before_it_has_failed() {
    let mut link = Link::new("kiln://far:1", "", Duration::ZERO);
    let patient = Request::new(1, Message::Lock { wait: true }, Duration::ZERO);
    link.handle(Duration::ZERO, Event::Request(patient));
    assert_eq!(link.wake_at(), DEAD);
    assert!(link.handle(QUIET, Event::Tick).is_empty());
    assert_eq!(link.wake_at(), DEAD);
}

#[test]
fn misdirected_replies_end_the_link() {
    let breaches: [fn(&mut Link) -> Vec<Action>; 4] = [
        |link| reply(link, 77),
        |link| {
            reply(link, 1);
            reply(link, 1)
        },
        |link| link.handle(Duration::ZERO, Event::Frame(Frame::new(1, Message::Ping {}))),
        |link| {
            *link = Link::new("kiln://far:1", "elsewhere", Duration::ZERO);
            link.handle(Duration::ZERO, Event::Connected);
            link.handle(Duration::ZERO, Event::Frame(welcome(1, 1)))
        },
    ];
    for (number, breach) in breaches.iter().enumerate() {
        let mut link = ready(10, 100);
        ask(&mut link, 1, read(1));
        let actions = breach(&mut link);
        assert!(matches!(actions.last(), Some(Action::Close)), "{number}: {actions:?}");
        assert!(matches!(
            ask(&mut link, 5, read(1))[..],
            [Action::Answer { token: 5, answer: Err(_) }]
        ));
    }
}

#[test]
fn while_an_answer_is_owed_silence_ends_the_connection_sooner() {
    let patience = 4 * SECOND;
    let mut link = ready(10, 1000);
    link.limit_silence(patience);
    assert_eq!(link.wake_at(), QUIET, "nothing is owed");
    let begun = QUIET / 2;
    let long = Request::new(1, read(1), Duration::ZERO);
    link.handle(begun, Event::Request(long));
    for pings in 1..5 {
        // It is alive: its disk alone is slow.
        let at = begun + pings * SECOND;
        assert_eq!(link.wake_at(), at);
        let actions = link.handle(at, Event::Tick);
        assert!(matches!(&actions[..], [Action::Send { frame, .. }]
            if frame.message == Message::Ping {}));
        assert_eq!(link.wake_at(), at - SECOND + patience);
        let pong = Frame::new(sent(&actions)[0], Message::Done {});
        link.handle(at, Event::Frame(pong));
    }
    let since = begun + 4 * SECOND;
    link.handle(since + SECOND, Event::Tick);
    assert!(link.handle(since + patience - SECOND / 10, Event::Tick).is_empty());
    let actions = link.handle(since + patience, Event::Tick);
    assert!(matches!(
        &actions[..],
        [Action::Answer { token: 1, answer: Err(NetError::Late { .. }) }, Action::Close]
    ));
}
