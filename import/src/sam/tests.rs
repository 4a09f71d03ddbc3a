//! Templates as functions.

use super::*;
use crate::tests::testing::{check_refused, only, row, table};
use fnd_manifest::foreign::FieldVerdict;

/// Makes functions of a template on a machine whose directories all have a `bootstrap`.
pub(crate) fn made(text: &str) -> Imported {
    fuzzing::made(text.as_bytes(), &[]).unwrap()
}

/// A template with one function that has these properties, each indented by six blanks.
fn template(properties: &str) -> String {
    format!(
        "Transform: AWS::Serverless-2016-10-31\nResources:\n  Shop:\n    Type: AWS::Serverless::Function\n    Properties:\n\
         \x20     CodeUri: build/\n      Handler: bootstrap\n      Runtime: provided.al2023\n{properties}"
    )
}

#[test]
fn a_function_has_the_defaults_of_aws() {
    let imported = made(&template(""));
    let function = only(&imported);
    let manifest = table(function);
    assert_eq!(function.name, "shop");
    for (key, value) in [("runtime", "lambda"), ("entry", "bootstrap"), ("handler", "bootstrap")] {
        assert_eq!(manifest[key].as_str(), Some(value), "{key}");
    }
    assert_eq!(manifest["limits"]["timeout"].as_str(), Some("3s"));
    assert_eq!(manifest["limits"]["memory"].as_str(), Some("512M"));
    assert_eq!(manifest["env"]["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"].as_str(), Some("128"));
    let files: Vec<_> = function
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.executable))
        .collect();
    assert_eq!(files, [("bootstrap", true), ("data.txt", false)]);
    let verdict = |name: &str| row(&imported.report, name).verdict;
    assert_eq!(verdict("Shop.Timeout"), FieldVerdict::Works);
    assert_eq!(verdict("Shop.ReservedConcurrentExecutions"), FieldVerdict::Differs);
}

#[test]
fn globals_parameters_and_intrinsic_functions_are_replaced() {
    let text = "Transform: [AWS::LanguageExtensions, AWS::Serverless-2016-10-31]\n\
        Parameters:\n  Stage: {Type: String, Default: dev}\n  Names: {Type: CommaDelimitedList, Default: 'a, b'}\n\
        Mappings:\n  Sizes:\n    dev: {memory: 256}\n    live: {memory: 1024}\n\
        Conditions:\n  IsLive: !Equals [!Ref Stage, live]\n  IsNot: !Not [!Condition IsLive]\n\
        Globals:\n  Function:\n    Runtime: provided.al2\n    Timeout: 20\n    Environment:\n      Variables: {LEVEL: info, STAGE: !Ref Stage}\n\
        Resources:\n  Shop:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: build\n      Handler: bootstrap\n\
        \x20     FunctionName: !Sub '${Stage}-shop'\n      MemorySize: !FindInMap [Sizes, !Ref Stage, memory]\n\
        \x20     Description: !If [IsLive, live, !Ref AWS::NoValue]\n      Environment:\n        Variables:\n          LEVEL: debug\n\
        \x20         HOST: !Join ['.', [!Ref Stage, 'example', !Ref AWS::Region]]\n          MODE: !If [IsNot, trial, sale]\n\
        \x20         SELF: {'Fn::GetAtt': [Shop, Arn]}\n          TEXT: !Sub ['${a}-${!b}', {a: !Ref Stage}]\n\
        \x20 Other:\n    Type: AWS::Serverless::Function\n    Condition: IsLive\n    Properties: {CodeUri: other, Handler: bootstrap}\n";
    let imported = made(text);
    let function = only(&imported);
    let manifest = table(function);
    assert_eq!(function.name, "dev-shop");
    assert_eq!(manifest["limits"]["memory"].as_str(), Some("1024M"));
    assert_eq!(manifest["limits"]["timeout"].as_str(), Some("20s"));
    assert!(!manifest.contains_key("description"));
    for (name, value) in [
        ("LEVEL", "debug"),
        ("STAGE", "dev"),
        ("HOST", "dev.example.us-east-1"),
        ("MODE", "trial"),
        ("SELF", "arn:aws:lambda:us-east-1:000000000000:function:dev-shop"),
        ("TEXT", "dev-${b}"),
    ] {
        assert_eq!(manifest["env"][name].as_str(), Some(value), "{name}");
    }
    assert_eq!(row(&imported.report, "Other").verdict, FieldVerdict::NotHere);
    let live = fuzzing::made(text.as_bytes(), &[("Stage", "live")]).unwrap();
    assert_eq!(live.functions.len(), 2);
    assert_eq!(table(&live.functions[0])["limits"]["memory"].as_str(), Some("4096M"));
}

#[test]
fn events_are_routes_and_schedules() {
    let imported = made(&template(
        "      Events:\n        Get:\n          Type: HttpApi\n          Properties: {Path: '/orders/{id}/{proxy+}', Method: get}\n\
         \x20       All: {Type: HttpApi}\n        Tick:\n          Type: Schedule\n          Properties: {Schedule: rate(5 minutes), Input: '{\"a\": 1}'}\n\
         \x20       Night:\n          Type: ScheduleV2\n          Properties:\n            ScheduleExpression: cron(30 2 ? * 2 *)\n\
         \x20           ScheduleExpressionTimezone: Europe/Berlin\n            FlexibleTimeWindow: {Mode: FLEXIBLE, MaximumWindowInMinutes: 5}\n\
         \x20       Off:\n          Type: Schedule\n          Properties: {Schedule: rate(1 day), Enabled: false}\n\
         \x20     FunctionUrlConfig: {AuthType: AWS_IAM, Cors: {AllowOrigins: ['https://a.example']}}\n",
    ));
    let manifest = table(only(&imported));
    let routes = manifest["http"].as_array().unwrap();
    let paths: Vec<_> = routes.iter().map(|route| route["path"].as_str().unwrap()).collect();
    assert_eq!(
        paths,
        [
            "/orders/{id}/{*proxy}",
            "/",
            "/{*rest}",
            "/shop",
            "/shop/",
            "/shop/{*rest}"
        ]
    );
    assert_eq!(routes[0]["methods"].as_array().unwrap()[0].as_str(), Some("GET"));
    assert_eq!(routes[0]["auth"].as_str(), Some("none"));
    assert_eq!(routes[3]["auth"].as_str(), Some("token:shop-token"));
    assert_eq!(routes[3]["cors"].as_array().unwrap().len(), 1);
    let schedules = manifest["schedule"].as_array().unwrap();
    assert_eq!(schedules.len(), 2);
    assert_eq!(schedules[0]["every"].as_str(), Some("5m"));
    assert_eq!(schedules[0]["data"]["a"].as_integer(), Some(1));
    assert_eq!(schedules[1]["cron"].as_str(), Some("30 2 * * 1"));
    assert_eq!(schedules[1]["timezone"].as_str(), Some("Europe/Berlin"));
    assert_eq!(schedules[1]["jitter"].as_str(), Some("5m"));
    let note = row(&imported.report, "Shop.Events.Get.Auth").note.clone();
    assert!(note.unwrap().starts_with("open to everybody, as there"));
}

/// An authorizer of the API, of its routes, and none at all.
#[test]
fn a_route_with_an_authorizer_wants_a_token() {
    let route = |auth: &str, api: &str| {
        let text = template(&format!(
            "      Events:\n        Get:\n          Type: Api\n          Properties: {{Path: /, Method: any, RestApiId: !Ref Front{auth}}}\n\
             \x20 Front:\n    Type: AWS::Serverless::Api\n    Properties: {{StageName: live{api}}}\n"
        ));
        let manifest = table(only(&made(&text)));
        manifest["http"].as_array().unwrap()[0]["auth"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let of_api = ", Auth: {DefaultAuthorizer: Pool}";
    assert_eq!(route("", ""), "none");
    assert_eq!(route("", of_api), "token:shop-token");
    assert_eq!(route(", Auth: {Authorizer: NONE}", of_api), "none");
    assert_eq!(route(", Auth: {Authorizer: AWS_IAM}", ""), "token:shop-token");
    assert_eq!(route(", Auth: {ApiKeyRequired: true}", ""), "token:shop-token");
}

/// There, a list of callers or a private network guards these routes.
#[test]
fn a_route_that_is_guarded_without_an_authorizer_wants_a_token() {
    let auth = |route: &str, sections: &str| {
        let text = template(&format!(
            "      Events:\n        Get:\n          Type: Api\n          Properties: {{Path: /, Method: any{route}}}\n{sections}"
        ));
        let manifest = table(only(&made(&text)));
        manifest["http"].as_array().unwrap()[0]["auth"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let front = |properties: &str| {
        format!("  Front:\n    Type: AWS::Serverless::Api\n    Properties: {{StageName: live, {properties}}}\n")
    };
    let of_front = ", RestApiId: !Ref Front";
    for open in ["Name: front", "DefinitionBody: {openapi: 3.0.1, paths: {}}"] {
        assert_eq!(auth(of_front, &front(open)), "none", "{open}");
    }
    for (route, sections) in [
        (
            ", Auth: {ResourcePolicy: {IpRangeWhitelist: [192.0.2.0/24]}}",
            String::new(),
        ),
        (
            of_front,
            front("Auth: {ResourcePolicy: {IpRangeWhitelist: [192.0.2.0/24]}}"),
        ),
        (of_front, front("Auth: {DefaultAuthorizer: !If [A, B, C]}")),
        (of_front, front("Auth: !If [A, B, C]")),
        (of_front, front("EndpointConfiguration: {Type: PRIVATE}")),
        (
            ", RestApiId: !Ref Front, Auth: {Authorizer: NONE}",
            front("Auth: {ApiKeyRequired: true}"),
        ),
        (", RestApiId: !ImportValue front", String::new()),
        (", Auth: !If [A, B, C]", String::new()),
        (of_front, front("DefinitionUri: api.yaml")),
        (
            of_front,
            front("DefinitionBody: {paths: {/: {get: {security: [{key: []}]}}}}"),
        ),
        (
            "",
            "Globals: {Api: {Auth: {ResourcePolicy: {IpRangeBlacklist: [192.0.2.1]}}}}\n".to_owned(),
        ),
    ] {
        assert_eq!(auth(route, &sections), "token:shop-token", "{route} {sections}");
    }
}

/// The value of the parameter would be in a file that everybody may read.
#[test]
fn a_variable_with_a_secret_parameter_is_a_secret() {
    let text = template(
        "      Environment:\n        Variables: {URL: !Sub 'db://a:${Password}@b', PLAIN: a, KEY: !Ref Key}\n\
         Parameters: {Password: {Type: String, NoEcho: true}, Key: {Type: String, NoEcho: true}}\n",
    );
    let imported = fuzzing::made(text.as_bytes(), &[("Password", "s3")]).unwrap();
    let function = only(&imported);
    let manifest = table(function);
    assert_eq!(manifest["secrets"]["URL"]["secret"].as_str(), Some("shop-url"));
    assert!(!manifest["env"].as_table().unwrap().contains_key("URL"));
    // Its value was not given: the operator stores it.
    assert_eq!(manifest["secrets"]["KEY"]["secret"].as_str(), Some("shop-key"));
    let needed: Vec<_> = function.manifest.secret_names().into_iter().collect();
    assert_eq!(needed, ["shop-key", "shop-url"]);
    assert_eq!(function.secrets, [("shop-url".to_owned(), b"db://a:s3@b".to_vec())]);
    assert_eq!(
        row(&imported.report, "Shop.Environment.URL").verdict,
        FieldVerdict::Differs
    );
}

#[test]
fn values_that_fnd_has_made_up_are_named() {
    let text = template(
        "      FunctionName: !Sub '${AWS::StackName}-Shop'\n\
         \x20     Environment: {Variables: {REGION: !Ref AWS::Region, SELF: !Ref Shop, CERT: /var/task/a.pem}}\n",
    );
    let imported = made(&text);
    for (name, words) in [
        ("Shop.FunctionName", "the function `shop` here"),
        ("Shop.Environment.REGION", "`AWS::Region` is `us-east-1` here"),
        ("Shop.Environment.SELF", "no API of Lambda"),
        ("Shop.Environment.CERT", "no `/var/task` here"),
    ] {
        let found = row(&imported.report, name);
        assert_eq!(found.verdict, FieldVerdict::Differs, "{name}");
        assert!(found.note.as_ref().unwrap().contains(words), "{found:?}");
    }
    let given = [("AWS::Region", "eu-west-1"), ("AWS::StackName", "live")];
    let imported = fuzzing::made(text.as_bytes(), &given).unwrap();
    let function = only(&imported);
    assert_eq!(function.name, "live-shop");
    for name in ["REGION", "AWS_REGION"] {
        assert_eq!(table(function)["env"][name].as_str(), Some("eu-west-1"), "{name}");
    }
    assert_eq!(
        row(&imported.report, "Shop.Environment.REGION").verdict,
        FieldVerdict::Works
    );
}

/// The settings of APIs and of `Globals` that reach no function.
#[test]
fn no_section_is_left_out_without_a_word() {
    use FieldVerdict::{Differs, NotHere, Unknown};
    let imported = made(&template(
        "      Timeout: 60\n      EventInvokeConfig: {MaximumEventAgeInSeconds: 60}\n\
         \x20     Events: {Get: {Type: Api, Name: get, Properties: {Path: /, Method: get, RestApiId: !Ref Front}}}\n\
         \x20 Front:\n    Type: AWS::Serverless::Api\n    Properties: {StageName: live, Cors: \"'*'\", TracingEnabled: true}\n\
         \x20 Night: {Type: AWS::Events::Rule}\n\
         Globals:\n  HttpApi: {CorsConfiguration: true}\n  Functions: {Timeout: 5}\n",
    ));
    for (name, verdict) in [
        ("Shop.Events", Differs),
        ("Shop.Events.Get", Differs),
        ("Shop.Events.Get.Name", Unknown),
        ("Shop.EventInvokeConfig.MaximumRetryAttempts", Differs),
        ("Front.StageName", NotHere),
        ("Front.Cors", NotHere),
        ("Front.TracingEnabled", NotHere),
        ("Night", NotHere),
        ("Globals.HttpApi.CorsConfiguration", NotHere),
        ("Globals.Functions", Unknown),
    ] {
        assert_eq!(row(&imported.report, name).verdict, verdict, "{name}");
    }
}

#[test]
fn a_template_may_be_json_with_tabs_and_its_parameters_are_checked() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("shop.template");
    let text = "{\n\t\"Transform\": \"AWS::Serverless-2016-10-31\",\n\
        \t\"Parameters\": {\"Stage\": {\"Type\": \"String\", \"AllowedValues\": [\"dev\", \"live\"]}},\n\
        \t\"Resources\": {}\n}\n";
    std::fs::write(&file, text).unwrap();
    for given in ["Stage=live", "AWS::StackName=shop"] {
        let imported = import(&file, &[given.to_owned()]).unwrap();
        check_refused(&imported.report, "there is no `AWS::Serverless::Function`", given);
    }
    for (given, why) in [
        ("Stage=lvie", "allows only `dev`, `live`"),
        ("Stag=live", "no parameter `Stag`"),
        ("Stage", "expected NAME=VALUE"),
    ] {
        let failure = import(&file, &[given.to_owned()]).unwrap_err();
        assert!(failure.message.contains(why), "{given}: {}", failure.message);
    }
}

/// A short template can ask for much.
#[test]
fn a_bomb_costs_little() {
    let text = "x".repeat(4_000);
    let many = vec!["${A}"; 50_000].concat();
    let variables = format!(
        "      Environment: {{Variables: {{A: !Sub '{many}'}}}}\nParameters: {{A: {{Type: String, Default: {text}}}}}\n"
    );
    check_refused(&made(&template(&variables)).report, "no value for", "a text");

    let list = vec!["!Ref A"; 20_000].join(", ");
    let variables = format!(
        "      Layers: [{list}]\nParameters: {{A: {{Type: CommaDelimitedList, Default: '{}'}}}}\n",
        ",".repeat(4_000)
    );
    check_refused(&made(&template(&variables)).report, "layers", "a list");

    let mut conditions = "Conditions:\n".to_owned();
    for level in 0..15 {
        let next = vec![format!("!Condition C{}", level + 1); 10].join(", ");
        conditions.push_str(&format!("  C{level}: !And [{next}]\n"));
    }
    conditions.push_str("  C15: !Equals [a, a]\n");
    let text = template("").replace("    Properties:\n", "    Condition: C0\n    Properties:\n") + &conditions;
    check_refused(&made(&text).report, "cannot tell whether", "conditions");

    let wide = "y".repeat(200);
    let tags: String = (0..900).map(|number| format!("      t{number}: {wide}\n")).collect();
    let functions: String = (0..900)
        .map(|number| format!("  F{number}: {{Type: AWS::Serverless::Function}}\n"))
        .collect();
    let text = format!(
        "Transform: AWS::Serverless-2016-10-31\nGlobals:\n  Function:\n    Tags:\n{tags}Resources:\n{functions}"
    );
    check_refused(&made(&text).report, "too large for so many functions", "globals");
}

#[test]
fn a_refused_function_has_a_row_for_each_property() {
    use FieldVerdict::{NotHere, Refused, Unknown};
    let text = template("      Timout: 5\n      Events: {A: {Type: SQS}}\n").replace("provided.al2023", "python3.12");
    let imported = made(&text);
    assert_eq!(imported.refused, ["shop"]);
    for (name, verdict) in [
        ("Shop.Runtime", Refused),
        ("Shop.CodeUri", NotHere),
        ("Shop.Handler", NotHere),
        ("Shop.Timout", Unknown),
        ("Shop.Events", NotHere),
    ] {
        assert_eq!(row(&imported.report, name).verdict, verdict, "{name}");
    }
}

#[test]
fn a_bootstrap_of_bash_that_names_sh_has_a_note() {
    let imported = made(&template("").replace("build/", "bash"));
    let note = row(&imported.report, "Shop.CodeUri.bootstrap").note.clone();
    assert!(note.unwrap().contains("`#!/bin/bash`"));
}

/// The name of a resource is no parameter.
#[test]
fn a_reference_to_a_resource_asks_for_its_value() {
    for value in ["!Ref Table", "!GetAtt Table.Arn"] {
        let text = template(&format!(
            "      Environment: {{Variables: {{A: {value}}}}}\n  Table: {{Type: AWS::DynamoDB::Table}}\n"
        ));
        check_refused(&made(&text).report, "since AWS makes this resource", value);
    }
}

#[test]
fn every_property_has_a_verdict() {
    use FieldVerdict::{Differs, NotHere, Refused, Unknown, Works};
    for (property, verdict) in [
        ("Architectures: [x86_64]", Works),
        ("Architectures: [arm64]", Refused),
        ("MemorySize: 512", Differs),
        ("MemorySize: 64", Refused),
        ("MemorySize: !Ref Size", Refused),
        ("Timeout: 901", Refused),
        ("EphemeralStorage: {Size: 1024}", Differs),
        ("ReservedConcurrentExecutions: 2", Differs),
        ("ReservedConcurrentExecutions: 0", Differs),
        (
            "ProvisionedConcurrencyConfig: {ProvisionedConcurrentExecutions: 1}",
            Works,
        ),
        ("Layers: [!Ref Tools]", Refused),
        ("VpcConfig: {SubnetIds: [!Ref Net]}", NotHere),
        ("Role: !GetAtt R.Arn", NotHere),
        ("Policies: [AWSLambdaBasicExecutionRole]", NotHere),
        ("Tracing: Active", NotHere),
        ("DeadLetterQueue: {Type: SQS, TargetArn: !GetAtt Q.Arn}", NotHere),
        ("SnapStart: {ApplyOn: None}", NotHere),
        ("InlineCode: x", Refused),
        ("MemorySise: 512", Unknown),
    ] {
        let imported = made(&template(&format!("      {property}\n")));
        let name = format!("Shop.{}", property.split(':').next().unwrap());
        assert_eq!(row(&imported.report, &name).verdict, verdict, "{property}");
    }
}

#[test]
fn what_cannot_run_is_refused() {
    let with = |old: &str, new: &str| template("").replace(old, new);
    for (text, why) in [
        (String::new(), "there is no"),
        (
            "Resources:\n  A: {Type: AWS::Lambda::Function}\n".to_owned(),
            "`AWS::Lambda::Function` as `AWS::Serverless::Function`",
        ),
        ("Resources: {}\n".to_owned(), "no template of SAM"),
        (
            template("").replace("Serverless::Function", "DynamoDB::Table"),
            "there is no",
        ),
        (with("provided.al2023", "python3.12"), "awslambdaric"),
        (with("provided.al2023", "go1.x"), "Runtime: provided.al2023"),
        (with("provided.al2023", "!Ref Run"), "--parameter Run=VALUE"),
        (with("      Runtime: provided.al2023\n", ""), "no `Runtime`"),
        (with("build/", "s3://bucket/key"), "nothing from S3"),
        (with("build/", "{Bucket: b, Key: k}"), "nothing from S3"),
        (with("build/", "missing"), "failed to read"),
        (with("build/", "source"), "sam build"),
        (with("build/", "plain"), "chmod +x"),
        (with("      CodeUri: build/\n", ""), "no code"),
        (template("      PackageType: Image\n"), "no images"),
        (
            template("      Events: {A: {Type: SQS}, B: {Type: S3}}\n"),
            "nothing would run the function",
        ),
        (
            format!(
                "{}  Plain: {{Type: AWS::Lambda::Function}}\n",
                template("").replace("build/", "missing")
            ),
            "as `AWS::Serverless::Function`",
        ),
        (
            template("      Environment: {Variables: {A: !Ref Table}}\n"),
            "no value for `!Ref Table`",
        ),
        (
            template("      Environment: {Variables: {A: !ImportValue x}}\n"),
            "!ImportValue x",
        ),
        (template("      Environment: {Variables: {FND_A: x}}\n"), "no name"),
        (
            template("      Environment: {Variables: {A: '{{resolve:ssm:/a}}'}}\n"),
            "only AWS resolves",
        ),
        (
            template(
                "      Environment: {Variables: {A: !Ref Url}}\n\
                 Parameters: {Url: {Type: 'AWS::SSM::Parameter::Value<String>', Default: /shop/url}}\n",
            ),
            "--parameter Url=VALUE",
        ),
        (
            template("      Events: {A: !If [Live, {Type: Api}, {Type: HttpApi}]}\n"),
            "!If",
        ),
        (template("      Environment: !If [Live, {}, {}]\n"), "!If"),
        (
            with("    Properties:\n", "    Condition: Live\n    Properties:\n"),
            "cannot tell whether",
        ),
        (
            template("      FunctionUrlConfig: {InvokeMode: BUFFERED}\n"),
            "AuthType",
        ),
        (
            template("      Events: {A: {Type: Schedule, Properties: {Schedule: 'cron(0 1 * * ? 2030)'}}}\n"),
            "no years",
        ),
        (
            template("      Events: {A: {Type: HttpApi, Properties: {Path: /, Method: trace}}}\n"),
            "no method",
        ),
    ] {
        let imported = made(&text);
        assert!(imported.functions.is_empty(), "{text}");
        check_refused(&imported.report, why, &text);
    }
}
