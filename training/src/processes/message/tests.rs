use super::*;
use proptest::prelude::*;

fn sent(message: &Message) -> Message {
    let bytes = message.to_bytes().unwrap();
    let mut from = bytes.as_slice();
    let read = Message::read(&mut from, MESSAGE_BYTES_MAX).unwrap();
    assert!(from.is_empty(), "nothing is left");
    read
}

fn text() -> impl Strategy<Value = String> {
    ".{0,12}"
}

fn pack() -> impl Strategy<Value = Pack> {
    let some = || prop::collection::vec(any::<u32>(), 0..5);
    let floats = prop::collection::vec(-1e9_f32..1e9, 0..5);
    (some(), some(), some(), some(), some(), some(), floats).prop_map(
        |(ids, positions, starts, rows, targets, samples, weights)| Pack {
            ids,
            positions,
            starts,
            rows,
            targets,
            weights,
            samples,
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    let packs = || prop::collection::vec(pack(), 0..4);
    let values = || prop::collection::vec(-1e300_f64..1e300, 0..6);
    let reduce = prop_oneof![Just(Reduce::Sum), Just(Reduce::Max), (0_usize..9).prop_map(Reduce::Of)];
    let update = (any::<u64>(), -1.0_f64..1.0).prop_map(|(step, rate)| Update {
        step,
        rate,
        clip: 1.0,
        beta1: 0.9,
        beta2: 0.95,
        eps: 1e-8,
        decay: 0.1,
    });
    let name = || prop::option::of(prop::collection::vec(any::<u8>(), 0..130));
    let making = (name(), name(), any::<[bool; 3]>(), any::<u32>()).prop_map(|(one, two, flags, rows)| Making {
        names: [one, two],
        settings: NetworkSettings {
            rows_max: rows as usize,
            keep_attention: flags[0],
            keep_products: flags[1],
            softmax_over_padding: flags[2],
        },
    });
    let plain = prop_oneof![Just(Message::Beat), Just(Message::Welcome), Just(Message::StopAsked), Just(Message::Done)];
    let kind = prop_oneof![Just(OverKind::Done), Just(OverKind::Stopped), Just(OverKind::Failed)];
    let orders = prop_oneof![
        making.prop_map(Message::Make),
        text().prop_map(Message::Restore),
        text().prop_map(Message::Save),
        (packs(), update).prop_map(|(packs, update)| Message::Step(packs, update)),
        packs().prop_map(Message::Evaluate),
    ];
    let answers = prop_oneof![
        (-1e9_f64..1e9, 0.0_f64..1e9, any::<bool>())
            .prop_map(|(loss, grad_norm, updated)| Message::Stepped(StepDone { loss, grad_norm, updated })),
        (-1e9_f64..1e9).prop_map(Message::Evaluated),
        text().prop_map(Message::Failed),
        (0_usize..2, text(), reduce, values()).prop_map(|(group, op, reduce, values)| Message::Meet {
            group,
            op,
            reduce,
            values
        }),
        values().prop_map(Message::Met),
    ];
    let others = prop_oneof![
        (text(), any::<u16>(), any::<u16>(), text()).prop_map(|(version, rank, ranks, described)| {
            Message::Hello(Hello { version, rank: rank.into(), ranks: ranks.into(), described })
        }),
        text().prop_map(Message::Refused),
        text().prop_map(Message::Left),
        (kind, text()).prop_map(|(kind, why)| Message::Over(Over { kind, why })),
    ];
    prop_oneof![plain, orders, answers, others]
}

proptest! {
    #[test]
    fn what_is_sent_is_what_is_read(message in message()) {
        prop_assert_eq!(sent(&message), message);
    }

    #[test]
    fn a_message_that_is_cut_is_an_error_wherever_it_is_cut(message in message(), at in any::<prop::sample::Index>()) {
        let bytes = message.to_bytes().unwrap();
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(Message::read(&mut &*cut, MESSAGE_BYTES_MAX).is_err());
    }

    #[test]
    fn bytes_that_are_none_are_an_error_or_a_message_and_no_panic(
        kind in 0_u8..20, bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut all = vec![kind];
        all.extend((bytes.len() as u32).to_le_bytes());
        all.extend(&bytes);
        let _either = Message::read(&mut all.as_slice(), MESSAGE_BYTES_MAX);
    }
}

#[test]
fn no_number_is_a_number_to_the_bit() {
    let odd = f64::from_bits(0x7ff8_0000_0000_1234);
    let Message::Met(values) = sent(&Message::Met(vec![odd, -0.0, f64::INFINITY, f64::MIN_POSITIVE / 8.0])) else {
        panic!("another message")
    };
    let bits: Vec<u64> = values.into_iter().map(f64::to_bits).collect();
    assert_eq!(bits, [odd.to_bits(), (-0.0_f64).to_bits(), f64::INFINITY.to_bits(), 1 << 49]);
}

#[test]
fn no_room_is_taken_for_what_is_only_claimed() {
    let claimed = |kind: u8, length: u32| {
        let mut bytes = vec![kind];
        bytes.extend(length.to_le_bytes());
        bytes
    };
    // More than a greeting may have, as a browser's first line is read.
    let refused = Message::read(&mut b"GET / HTTP/1.1\r\n\r\n".as_slice(), HELLO_BYTES_MAX).unwrap_err().to_string();
    assert!(refused.contains("expected a message of at most 65536 bytes"), "{refused}");
    let cut = Message::read(&mut claimed(17, 1 << 30).as_slice(), MESSAGE_BYTES_MAX).unwrap_err();
    assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    // A list that is said to be longer than its message.
    let mut list = claimed(17, 8);
    list.extend(u64::MAX.to_le_bytes());
    let refused = Message::read(&mut list.as_slice(), MESSAGE_BYTES_MAX).unwrap_err().to_string();
    assert!(refused.contains("expected no 18446744073709551615 values of 8 bytes"), "{refused}");
}
