use super::*;

const NOW: Duration = Duration::ZERO;

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn admission(unproven: usize, each: usize) -> Admission {
    let limits = Limits { unproven, unproven_per_address: each, ..Limits::default() };
    Admission::new(limits)
}

#[test]
fn a_flood_from_one_address_takes_its_own_places_only() {
    let mut admission = admission(8, 4);
    assert_eq!(admission.arrive(NOW, 1, address(1)), Arrival::Accepted);
    for id in 2..6 {
        assert_eq!(admission.arrive(NOW, id, address(2)), Arrival::Accepted);
    }
    for id in 6..2000 {
        assert_eq!(admission.arrive(NOW, id, address(2)), Arrival::Replaces(id - 4));
    }
    assert_eq!(admission.load(), (5, 0));
    assert_eq!(admission.enter(1), Entry::Entered);
    assert_eq!(admission.enter(6), Entry::Gone);
}

#[test]
fn when_all_places_are_taken_the_oldest_goes() {
    let mut admission = admission(3, 2);
    for id in 1..4 {
        let now = Duration::from_secs(id);
        assert_eq!(admission.arrive(now, id, address(id as u8)), Arrival::Accepted);
    }
    assert_eq!(admission.waits_since(2), Some(Duration::from_secs(2)));
    assert_eq!(admission.arrive(NOW, 4, address(9)), Arrival::Replaces(1));
    // Two of one address: then its own oldest goes, not that of all.
    assert_eq!(admission.arrive(NOW, 5, address(9)), Arrival::Replaces(2));
    assert_eq!(admission.arrive(NOW, 6, address(9)), Arrival::Replaces(4));
    assert_eq!((admission.load(), admission.waits_since(4)), ((3, 0), None));
}

#[test]
fn whoever_has_few_keeps_them_however_many_the_others_have() {
    let mut admission = admission(128, 32);
    assert_eq!(admission.arrive(NOW, 1, address(1)), Arrival::Accepted);
    for id in 2..10_000 {
        let arrival = admission.arrive(NOW, id, address(2 + (id % 100) as u8));
        assert_ne!(arrival, Arrival::Replaces(1));
    }
    assert_eq!((admission.load(), admission.enter(1)), ((128, 0), Entry::Entered));
}

#[test]
fn members_have_places_of_their_own_and_only_so_many() {
    let limits = Limits {
        connections: 3,
        connections_per_address: 2,
        unproven: 2,
        unproven_per_address: 2,
        ..Limits::default()
    };
    let mut admission = Admission::new(limits);
    let come = |admission: &mut Admission, id, last| {
        admission.arrive(NOW, id, address(last));
        admission.enter(id)
    };
    assert_eq!(come(&mut admission, 1, 1), Entry::Entered);
    assert_eq!(come(&mut admission, 2, 1), Entry::Entered);
    assert_eq!(come(&mut admission, 3, 1), Entry::Crowded(2));
    assert_eq!(come(&mut admission, 4, 2), Entry::Entered);
    assert_eq!(come(&mut admission, 5, 3), Entry::Full(3));
    // Those who wait for a place are evicted like all others; members are not.
    (10..100).for_each(|id| assert!(admission.arrive(NOW, id, address(9)) != Arrival::Accepted));
    assert_eq!((admission.load(), admission.enter(5)), ((2, 3), Entry::Gone));
    admission.leave(2);
    assert_eq!(come(&mut admission, 100, 1), Entry::Entered);
    admission.leave(77);
    assert_eq!(admission.load().1, 3);
}

#[test]
fn one_machine_of_ipv6_is_one_address() {
    let parse = |text: &str| origin(text.parse().unwrap());
    assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:1"));
    assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
    assert_eq!(parse("::ffff:192.0.2.7"), address(7));
    assert_eq!(parse("::1"), IpAddr::V6(Ipv6Addr::LOCALHOST));
}
