//! A template of SAM becomes functions that do what it says.

use super::{ask, bash, executable, start, zip};
use fnd_tests::ctl::fndctl;
use std::fs;

const TEMPLATE: &str = "Transform: AWS::Serverless-2016-10-31
Parameters:
  Stage: {Type: String, Default: dev}
Globals:
  Function: {Runtime: provided.al2023, Handler: main, Timeout: 10}
Resources:
  Orders:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: build/
      Environment: {Variables: {STAGE: !Ref Stage}}
      Events:
        Get: {Type: HttpApi, Properties: {Path: '/orders/{id}', Method: GET}}
        Night: {Type: Schedule, Properties: {Schedule: 'cron(0 1 * * ? *)'}}
  Packed:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: code.zip, FunctionName: !Sub '${Stage}-packed'}
  Script:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: script/, Runtime: python3.12, Handler: app.handler}
  Table: {Type: AWS::DynamoDB::Table}
";

#[test]
fn functions_of_a_template_run_as_they_are() {
    let (fnd, caller) = start();
    let old = fnd.shared_directory("old");
    fs::create_dir(old.join("build")).unwrap();
    let body = "  answer='{\"stage\": \"'$STAGE'\", \"handler\": \"'$_HANDLER'\"}'";
    executable(&old.join("build/bootstrap"), &bash(body));
    zip(&old.join("build"), &old.join("code.zip"), &["bootstrap"]);
    fs::write(old.join("template.yaml"), TEMPLATE).unwrap();
    let functions = fnd.path("functions").display().to_string();
    let template = old.join("template.yaml").display().to_string();
    let words = [
        "import",
        "sam",
        &template,
        "--parameter",
        "Stage=live",
        "--out",
        &functions,
        "-o",
        "json",
    ];
    let run = fndctl(&words, b"", &[]);
    // The function in Python is refused.
    let document = run.expect_code(8).json();
    assert_eq!(
        document["functions"],
        serde_json::json!(["orders", "live-packed"]),
        "{document}"
    );
    let verdict = |field: &str| {
        let rows = document["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["field"] == field);
        row.unwrap_or_else(|| panic!("{field}: {document}"))["verdict"].clone()
    };
    for (field, expected) in [
        ("Script.Runtime", "refused"),
        ("Table", "not-here"),
        ("Orders.Events.Get.Auth", "differs"),
        ("Orders.Events.Night.Schedule", "works"),
    ] {
        assert_eq!(verdict(field), expected, "{field}");
    }
    for name in ["orders", "live-packed"] {
        assert_eq!(fnd.wait_ready(name).error, None, "{name}");
    }
    let told = ask(&fnd, "orders", "");
    assert_eq!(told, serde_json::json!({"stage": "live", "handler": "main"}));
    assert_eq!(ask(&fnd, "live-packed", "")["handler"], "main");
    assert_eq!(caller.get("/orders/7").json::<serde_json::Value>(), told);
    let schedules = fnd.ctl(&["schedules", "-o", "json"]).expect_code(0).json();
    assert_eq!(schedules["schedules"][0]["timezone"], "UTC", "{schedules}");
    fnd.finish();
}
