use super::*;

#[test]
fn durations() {
    let ms = |text| parse_duration(text).map(|d| d.as_millis());
    for (text, expected, printed) in [
        ("500ms", 500, "500ms"),
        ("30s", 30_000, "30s"),
        ("180s", 180_000, "180s"),
        ("5m", 300_000, "5m"),
        ("1h30m", 5_400_000, "90m"),
        ("24h", 86_400_000, "1d"),
        ("30d", 2_592_000_000, "30d"),
        ("1s500ms", 1500, "1500ms"),
        ("0", 0, "0"),
        ("0s", 0, "0"),
    ] {
        assert_eq!(ms(text), Ok(expected), "{text}");
        assert_eq!(print_duration(parse_duration(text).unwrap()), printed);
    }
    for text in [
        "", "s", "-1s", "1.5s", "30m1h", "1s1s", "1 s", "1w", "30S", "none", "½s", "1h 30m",
    ] {
        assert_eq!(ms(text), Err(UnitError::Duration), "{text}");
    }
    assert_eq!(ms("30"), Err(UnitError::DurationUnit));
    assert_eq!(ms("36501d"), Err(UnitError::DurationRange));
    assert_eq!(ms("99999999999999999999999s"), Err(UnitError::DurationRange));
    assert_eq!(ms("18446744073709551615d"), Err(UnitError::DurationRange));
}

#[test]
fn sizes() {
    for (text, expected, printed) in [
        ("0", 0, "0"),
        ("1", 1, "1"),
        ("1000", 1000, "1000"),
        ("1K", 1024, "1K"),
        ("256M", 256 << 20, "256M"),
        ("256Mi", 256 << 20, "256M"),
        ("1024M", 1 << 30, "1G"),
        ("1.5G", 3 << 29, "1536M"),
        ("2T", 2 << 40, "2T"),
    ] {
        assert_eq!(parse_size(text), Ok(expected), "{text}");
        assert_eq!(print_size(expected), printed);
    }
    for text in [
        "",
        "M",
        "i",
        "1i",
        "1.5",
        "1.M",
        "-1",
        "256m",
        "256MB",
        "1 M",
        "1.1234567M",
        "none",
        "1e3",
    ] {
        assert_eq!(parse_size(text), Err(UnitError::Size), "{text}");
    }
    assert_eq!(parse_size("9223372036854775808"), Err(UnitError::SizeRange));
    assert_eq!(
        parse_size("99999999999999999999999999999999999999999999G"),
        Err(UnitError::SizeRange)
    );
}

#[test]
fn sizes_in_sentences() {
    for (bytes, expected) in [
        (0, "0 bytes"),
        (1000, "1000 bytes"),
        (64 << 10, "64 KiB"),
        (256 << 20, "256 MiB"),
        (3 << 30, "3 GiB"),
        (2048 << 40, "2048 TiB"),
    ] {
        assert_eq!(spell_size(bytes), expected);
    }
}

#[test]
fn shares_of_the_cpu() {
    for (text, expected, printed) in [
        ("500m", 500, "500m"),
        ("0.5", 500, "500m"),
        ("50%", 500, "500m"),
        ("2", 2000, "2"),
        ("1.25", 1250, "1250m"),
        ("0.5%", 5, "5m"),
        ("150%", 1500, "1500m"),
    ] {
        assert_eq!(parse_cpu(text), Ok(expected), "{text}");
        assert_eq!(print_cpu(expected), printed);
    }
    for text in [
        "", "0", "0m", "m", "%", "-1", "0.5m", "1.2345", "1e3", "10001", ".5", "5.", "½",
    ] {
        assert_eq!(parse_cpu(text), Err(UnitError::Cpu), "{text}");
    }
}

#[test]
fn rates_and_permission_bits() {
    assert_eq!(parse_byte_rate("10M/s"), Ok(10 << 20));
    assert_eq!(print_byte_rate(10 << 20), "10M/s");
    for text in ["", "10M", "10M/m", "0/s", "/s"] {
        assert_eq!(parse_byte_rate(text), Err(UnitError::ByteRate), "{text}");
    }
    assert_eq!(parse_rate("10/s"), Ok((10, Duration::from_secs(1))));
    assert_eq!(parse_rate("1/d"), Ok((1, Duration::from_secs(86_400))));
    assert_eq!(print_rate(100, Duration::from_secs(60)), "100/m");
    for text in ["", "10", "0/s", "10/ms", "10/", "+1/s", "1.5/s", "-1/s"] {
        assert_eq!(parse_rate(text), Err(UnitError::Rate), "{text}");
    }
    assert_eq!(parse_mode("0640"), Ok(0o640));
    assert_eq!(parse_mode("640"), Ok(0o640));
    assert_eq!(print_mode(0o640), "0640");
    for text in ["", "64", "0o640", "0680", "00640", "rw-"] {
        assert_eq!(parse_mode(text), Err(UnitError::Mode), "{text}");
    }
    assert_eq!([parse_micros("50us"), parse_micros("0")], [Ok(50), Ok(0)]);
    assert_eq!([print_micros(1000), print_micros(0)], ["1000us", "0"]);
    for text in ["", "us", "50", "1ms", "+5us", "5.5us", "4294967296us"] {
        assert_eq!(parse_micros(text), Err(UnitError::Micros), "{text}");
    }
}

#[test]
fn one_is_singular() {
    let errors = [0_usize, 1, 2].map(|count| counted(count, "error", "errors"));
    assert_eq!(errors, ["0 errors", "1 error", "2 errors"]);
}
