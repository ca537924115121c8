//! Failure domains: those of nodes for which none was given, and what one failing host or device
//! takes along.

use std::collections::{BTreeMap, BTreeSet};

use kiln_net::Address;
use kiln_pool::{NodeConfig, PoolConfig};
use kiln_store::{Location, disk_under};

use crate::exit::{Failure, Result};
use crate::{print::count, setup};

/// Domains of nodes that fail with their host or device are named so.
const HOST: &str = "host-";
const DEVICE: &str = "device-";

/// The host or device that a node fails with, as the name of a domain; `None`: it is on neither, as
/// buckets are.
fn place(node: &NodeConfig) -> Option<String> {
    let name = match node.url.parse::<Address>() {
        Ok(address) => format!("{HOST}{}", address.host.to_ascii_lowercase()),
        Err(_) => {
            // A folder that is still to be made will be on the disk of the one above it.
            let path = Location::of(node.url.as_ref()).local().ok()?;
            format!("{DEVICE}{}", path.ancestors().find_map(disk_under)?)
        }
    };
    // No other characters, and no longer names, are allowed in domains.
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '.' };
    Some(name.chars().map(allowed).take(64).collect())
}

/// Gives nodes domains that have none (an empty name), and makes a description of all: the nodes of
/// one host or device are one domain if the codes then find enough of them, else each is its own.
pub fn with_domains(
    nodes: Vec<NodeConfig>,
    describe: impl Fn(Vec<NodeConfig>) -> Result<PoolConfig>,
) -> Result<PoolConfig> {
    let places: Vec<_> = nodes.iter().map(place).collect();
    let config = describe(chosen(&nodes, &places, true))?;
    match check_domains(&config, "--node") {
        Ok(()) => Ok(config),
        Err(_) => describe(chosen(&nodes, &places, false)),
    }
}

/// Nodes join the domain of others on their host or device, where these have one.
fn chosen(nodes: &[NodeConfig], places: &[Option<String>], shared: bool) -> Vec<NodeConfig> {
    let choose = |(node, place): (&NodeConfig, &Option<String>)| {
        let mut node = node.clone();
        if node.domain.is_empty() {
            let is_there = |other: &NodeConfig, at| shared && at == place && !other.is_leaving();
            let there = nodes.iter().zip(places).filter(|(other, at)| is_there(other, *at));
            let known = there.clone().map(|(other, _)| &other.domain[..]);
            let known: BTreeSet<_> = known.filter(|domain| !domain.is_empty()).collect();
            node.domain = match (place, known.first()) {
                (Some(_), Some(domain)) if known.len() == 1 => (*domain).to_owned(),
                (Some(place), None) if there.count() > 1 => place.clone(),
                _ => node.id.clone(),
            };
        }
        node
    };
    nodes.iter().zip(places).map(choose).collect()
}

/// Gives a node a domain, if it has none, that joins a pool or takes the place of a lost one.
pub fn joined(config: &PoolConfig, mut node: NodeConfig) -> Result<NodeConfig> {
    let (before, is_free) = (config.position(&node.id), node.domain.is_empty());
    let mut nodes = config.node.clone();
    nodes.retain(|other| other.id != node.id);
    nodes.push(node.clone());
    let mut next = with_domains(nodes, |node| Ok(PoolConfig { node, ..config.clone() }))?;
    node.domain = next.node.pop().map_or(node.domain, |last| last.domain);
    if let Some(before) = before.map(|at| &config.node[at]).filter(|_| is_free) {
        // A domain that a person named stays, but not one that follows from the lost node's place.
        let domain = &before.domain;
        let follows = domain.starts_with(HOST) || domain.starts_with(DEVICE);
        let is_named = !follows && config.position(domain).is_none();
        if before.url == node.url || (node.domain == node.id && is_named) {
            node.domain.clone_from(domain);
        }
    }
    Ok(node)
}

/// The most shards of any code of the pool must find domains, and so must its manifests.
pub fn check_domains(config: &PoolConfig, flag: &'static str) -> Result<()> {
    let here = distinct(config.node.iter().filter(|node| !node.is_leaving()));
    let (most, _) = needed(config)?;
    if here >= most {
        return Ok(());
    }
    let problem =
        format!("the pool's codes need nodes in {most} distinct domains, there are {here}");
    Err(Failure::Flag { flag, problem })
}

pub fn distinct<'a>(nodes: impl IntoIterator<Item = &'a NodeConfig>) -> usize {
    nodes.into_iter().map(|node| &node.domain).collect::<BTreeSet<_>>().len()
}

/// Returns the most domains that anything of an object is in, and the losses that all survive.
fn needed(config: &PoolConfig) -> Result<(usize, usize)> {
    let copies = config.policy.manifest_copies;
    let (mut most, mut losses) = (copies, copies.saturating_sub(1));
    for class in config.policy.class.iter().filter(|class| !class.is_inline()) {
        let codec = setup::codec(&class.code)?;
        most = most.max(codec.shape().n());
        losses = losses.min(codec.margin(&[]) as usize);
    }
    Ok((most, losses))
}

/// Says which nodes of distinct domains one failure would take, those on one host or device: a
/// sentence for each, and how many of them the pool survives.
pub fn notes_of_shared(config: &PoolConfig) -> Result<Vec<String>> {
    let nodes: Vec<_> = config.node.iter().filter(|node| !node.is_leaving()).collect();
    let placed: Vec<_> = nodes.iter().map(|node| place(node).unwrap_or(node.id.clone())).collect();
    let mut places: BTreeMap<&str, Vec<&NodeConfig>> = BTreeMap::new();
    for (place, node) in placed.iter().zip(nodes) {
        places.entry(place).or_default().push(node);
    }
    let (n, losses) = needed(config)?;
    let taken = |nodes: &Vec<&NodeConfig>| distinct(nodes.iter().copied()).min(n);
    let mut notes = Vec::new();
    for (place, nodes) in places.iter().filter(|(_, nodes)| taken(nodes) > 1) {
        let ids: Vec<&str> = nodes.iter().take(4).map(|node| &node.id[..]).collect();
        let more = if nodes.len() > ids.len() { ", ..." } else { "" };
        notes.push(format!(
            "note: {} ({}{more}) share {}; its failure takes up to {} shards of an object, and \
             {losses} may be lost",
            count(nodes.len() as u64, "node"),
            ids.join(", "),
            place.replacen('-', " ", 1),
            taken(nodes),
        ));
    }
    if notes.is_empty() {
        return Ok(notes);
    }
    // Any so many are survived if those that take the most are.
    let mut each: Vec<usize> = places.values().map(taken).collect();
    each.sort_unstable_by_key(|taken| std::cmp::Reverse(*taken));
    let (mut left, here) = (Some(losses), each.len());
    let survived = each.iter().take_while(|taken| {
        left = left.and_then(|left| left.checked_sub(**taken));
        left.is_some()
    });
    let survived = match survived.count() {
        0 => "but not of any host or device".to_owned(),
        some => format!("and of any {some} of {here} hosts or devices"),
    };
    let advice = match here < n {
        true => format!("for these to be domains {n} are needed, and {here} there"),
        false => format!(
            "{here} are there, enough to be domains: give nodes of one the same domain in the \
             pool's description, then run kiln repair and kiln pool rebalance"
        ),
    };
    let losses = count(losses as u64, "node");
    notes.push(format!("note: the loss of any {losses} is survived, {survived}; {advice}"));
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The domains that nodes get which are words `URL=DOMAIN`, and the notes about them.
    fn domains(code: &str, words: &str) -> (String, Vec<String>) {
        let config = pool(code, words);
        let domains: Vec<_> = config.node.iter().map(|node| &node.domain[..]).collect();
        (domains.join(" "), notes_of_shared(&config).unwrap())
    }

    fn pool(code: &str, words: &str) -> PoolConfig {
        let node = |(at, word): (usize, &str)| {
            let (url, domain) = word.split_once('=').unwrap_or((word, ""));
            let mut node = NodeConfig::new(&format!("n{at}"), url);
            domain.clone_into(&mut node.domain);
            node
        };
        let policy = kiln_pool::Policy::for_code(code).unwrap();
        let config = PoolConfig::new([1; 16], "p", policy);
        let nodes = words.split(' ').enumerate().map(node).collect();
        let config = with_domains(nodes, |node| Ok(PoolConfig { node, ..config.clone() })).unwrap();
        config.check().unwrap();
        config
    }

    #[test]
    fn hosts_are_domains_where_the_code_finds_enough() {
        for (code, words, wanted) in [
            ("rs:2+1", "kiln://a:1 kiln://A:2 kiln://[::1] kiln://c", "host-a host-a n2 n3"),
            ("rs:2+2", "kiln://a:1 kiln://a:2 kiln://b kiln://c", "n0 n1 n2 n3"),
            ("rs:2+1", "s3://a/1 s3://a/2 s3://a/3", "n0 n1 n2"),
            // A domain that is given wins, and the others of its host join it.
            ("rs:1+1", "kiln://a:1=r1 kiln://a:2 kiln://b:1=r1 kiln://c", "r1 r1 r1 n3"),
            ("rs:1+1", "kiln://a:1=r1 kiln://a:2=r2 kiln://a:3", "r1 r2 n2"),
        ] {
            assert_eq!(domains(code, words).0, wanted, "{code}: {words}");
        }
    }

    #[test]
    fn a_node_joins_its_host_and_keeps_what_a_person_named() {
        let words = "kiln://a:1 kiln://a:2 kiln://b kiln://c=r1";
        for (code, id, url, wanted) in [
            ("rs:2+1", "n4", "kiln://a:3", "host-a"),
            ("rs:2+1", "n4", "kiln://b:3", "n2"),
            ("rs:2+1", "n4", "kiln://d", "n4"),
            ("rs:2+1", "n3", "kiln://d", "r1"),
            ("rs:2+1", "n1", "kiln://d", "n1"),
            ("rs:2+1", "n1", "kiln://a:2", "host-a"),
            // On one host with another node it would leave the code too few domains.
            ("rs:2+1", "n2", "kiln://c:2", "n2"),
            ("rs:1+1", "n2", "kiln://c:2", "r1"),
        ] {
            let mut node = NodeConfig::new(id, url);
            node.domain.clear();
            let node = joined(&pool(code, words), node).unwrap();
            assert_eq!(node.domain, wanted, "{code}: {id} at {url}");
        }
    }

    #[test]
    fn what_one_failure_takes_is_said() {
        assert!(domains("rs:1+1", "kiln://a:1 kiln://a:2 kiln://b").1.is_empty());
        let notes = domains("rs:2+2", "kiln://a:1 kiln://a:2 kiln://b kiln://c").1;
        let wanted = [
            "note: 2 nodes (n0, n1) share host a; its failure takes up to 2 shards of an object, \
             and 2 may be lost",
            "note: the loss of any 2 nodes is survived, and of any 1 of 3 hosts or devices; for \
             these to be domains 4 are needed, and 3 there",
        ];
        assert_eq!(notes, wanted);
    }
}
