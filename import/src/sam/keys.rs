//! The names of a template's keys, as the schema of the Serverless Application Model has them
//! (`samtranslator/internal/schema_source`, 2026).

use crate::rows::{KeyTexts, unknown_key};

/// The sections of a template; `Resources` has the functions.
pub(super) const FILE: KeyTexts = fnd_manifest::texts! {
    "works AWSTemplateFormatVersion Transform Description Metadata Parameters Conditions Mappings Globals": "",
    "not-here Rules": "the values of parameters are taken as they are",
    "not-here Outputs": "fnd exports no values to other stacks",
    "not-here Hooks": "fnd does not deploy by CodeDeploy",
};

/// The advice for resources that are no function of SAM.
pub(super) const RESOURCES: KeyTexts = fnd_manifest::texts! {
    "refused AWS::Lambda::Function": "write it as `AWS::Serverless::Function`, with the code in `CodeUri`",
    "not-here AWS::Lambda::Url": "write it as `FunctionUrlConfig` of the function",
    "not-here AWS::Lambda::EventInvokeConfig": "write it as `EventInvokeConfig` of the function",
    "not-here AWS::Lambda::EventSourceMapping":
        "fnd reads no queues and streams of AWS: `[[nats]]` takes messages of NATS, `fndctl invoke F --async` queues a call",
    "not-here AWS::Events::Rule AWS::Scheduler::Schedule":
        "write its time as an event `Schedule` or `ScheduleV2` of the function; `[[event]]` takes CloudEvents",
    "not-here AWS::ApiGateway::Method AWS::ApiGateway::Resource AWS::ApiGatewayV2::Integration AWS::ApiGatewayV2::Route":
        "write it as an event `Api` or `HttpApi` of the function",
    "not-here AWS::Lambda::LayerVersion AWS::Serverless::LayerVersion": "copy its files into the code of the functions that use it",
    "not-here AWS::Serverless::Api AWS::Serverless::HttpApi": "fnd's listener serves the routes of the functions' events",
    "not-here AWS::Serverless::Application": "import the template that it names as well",
    "not-here AWS::Serverless::StateMachine AWS::StepFunctions::StateMachine":
        "fnd has no state machines: `[hooks]` runs one function after another",
    "not-here AWS::SSM::Parameter AWS::SecretsManager::Secret": "store the value with `fndctl secret set`, and name it in `[secrets]`",
};

/// The properties of an API, which may also be in `Globals`.
pub(super) const API: KeyTexts = fnd_manifest::texts! {
    "differs Auth": "each route says in a row of its own who may call it",
    "not-here Cors CorsConfiguration": "write `cors` in the `[[http]]` tables of the written functions",
    "not-here StageName": "no stage, such as `/Prod`, is in a path, nor in `rawPath`",
    "not-here DefinitionBody DefinitionUri":
        "only events of functions become routes: write `[[http]]` for a route that is only in the definition",
    "not-here Domain": "`http.host` gives a route its host name",
    "not-here DefaultRouteSettings MethodSettings RouteSettings": "`http.rate` limits the requests of a route",
    "not-here StageVariables Variables": "the event has no `stageVariables`",
};

/// The sections of `Globals` besides those of APIs.
pub(super) const GLOBALS: KeyTexts = fnd_manifest::texts! {
    "works Function": "",
    "not-here CapacityProvider LayerVersion SimpleTable StateMachine WebSocketApi": "no function has this setting",
};

/// The attributes of a function's resource; `Properties` has its keys.
pub(super) const ATTRIBUTES: KeyTexts = fnd_manifest::texts! {
    "works Type Properties DependsOn DeletionPolicy UpdateReplacePolicy Condition": "",
    "differs Metadata":
        "fnd builds nothing of it: it takes the `bootstrap` that is there, such as that of `sam build`",
    "not-here Connectors": "fnd has no IAM",
    "refused IgnoreGlobals": "write the properties at the functions that have them, and remove this key",
};

/// The properties of a function whose value does not matter.
pub(super) const FUNCTION: KeyTexts = fnd_manifest::texts! {
    "not-here AssumeRolePolicyDocument PermissionsBoundary Policies Role RolePath":
        "fnd has no IAM and gives no credentials of AWS: its rights are those of its user and of `[sandbox]`",
    "not-here AutoPublishAlias AutoPublishAliasAllProperties AutoPublishCodeSha256 VersionDescription VersionDeletionPolicy PublishToLatestPublished":
        "fnd keeps each release itself: `fndctl releases`",
    "not-here DeploymentPreference": "`[release] canary` gives a new version a share of the calls",
    "not-here CodeSigningConfigArn KmsKeyArn SourceKMSKeyArn": "nothing of it is stored at AWS",
    "not-here DeadLetterQueue": "a failed call becomes a dead letter of fnd: `fndctl dead-letters`",
    "not-here VpcConfig": "it uses this machine's network (`sandbox.network`)",
    "refused FileSystemConfigs": "name the directory in `sandbox.read_write` of the written function, and remove this key",
    "refused Layers":
        "copy the content of the layers into the code's directory (extensions to `extensions/`), and remove this key",
    "refused ImageUri ImageConfig": "fnd runs no images: name a directory or a zip in `CodeUri`",
    "refused InlineCode": "write the code to a directory with a `bootstrap`, and name it in `CodeUri`",
    "refused DurableConfig": "fnd has no checkpoints of durable functions",
    "refused CapacityProviderConfig FunctionScalingConfig": "`pool.concurrency` and `pool.max` of fnd say so: remove this key",
    "not-here SnapStart": "fnd makes no snapshots: `pool.min = 1` keeps a worker ready",
    "not-here RuntimeManagementConfig": "the runtime is in the code",
    "not-here RecursiveLoop": "fnd ends no loops of calls",
    "not-here TenancyConfig": "`pool.isolation = \"invocation\"` gives each call a fresh process",
    "not-here LoggingConfig": "fnd keeps the output itself: `fndctl logs`",
    "not-here PropagateTags": "there is no other resource to tag",
    "not-here Tracing": "there is no X-Ray here: fnd has traces of its own",
};

/// Keys of `EventInvokeConfig` without which AWS does something else than fnd.
pub(super) const ABSENT_ASYNCHRONOUS: KeyTexts = fnd_manifest::texts! {
    "MaximumRetryAttempts retry.retries":
        "AWS tries a failed asynchronous call, such as that of a schedule, twice more; here `[retry]` says so, for every call",
    "MaximumEventAgeInSeconds limits.deadline": "AWS drops a call that waits for 6 hours; here `limits.deadline` says so",
};

/// Properties without which AWS does something else than fnd.
pub(super) const ABSENT: KeyTexts = fnd_manifest::texts! {
    "EphemeralStorage limits.tmp": "AWS gives 512 MB of disk; here `/tmp` is memory, 64M unless `limits.tmp` says more",
    "ReservedConcurrentExecutions pool.max":
        "AWS starts as many as there are calls; here the fifth call at once waits, unless `pool.max` says more",
    "EventInvokeConfig retry.retries":
        "AWS tries a failed asynchronous call, such as that of a schedule, twice more, and drops it after 6 hours; here `[retry]` and \
         `limits.deadline` say so, for every call",
};

/// The properties of a function that `function` reads.
pub(super) const READ: &str = "\
    Architectures CodeUri Description Environment EphemeralStorage EventInvokeConfig Events FunctionName FunctionUrlConfig \
    Handler MemorySize PackageType ProvisionedConcurrencyConfig ReservedConcurrentExecutions Runtime Tags Timeout";

/// Of these, the ones whose value is a text or a number.
pub(super) const SCALARS: &str = "\
    Description Handler MemorySize PackageType ReservedConcurrentExecutions Runtime Timeout";

/// The keys of an event `Api` or `HttpApi` whose value does not matter.
pub(super) const ROUTE: KeyTexts = fnd_manifest::texts! {
    "works RestApiId ApiId ResponseTransferMode": "",
    "not-here RequestModel RequestParameters": "the function checks the request itself",
    "not-here TimeoutInMillis": "`limits.timeout` holds for every call",
    "not-here RouteSettings": "`http.rate` limits the requests of a route",
};

/// The keys of an event `Schedule` or `ScheduleV2` whose value does not matter.
pub(super) const SCHEDULE: KeyTexts = fnd_manifest::texts! {
    "works Name Description GroupName OmitName": "",
    "not-here DeadLetterConfig": "`schedule.dead_letters = true` keeps failed runs",
    "not-here RetryPolicy": "`[retry]` says how often a failed run is tried again",
    "not-here RoleArn KmsKeyArn PermissionsBoundary": "fnd has no IAM",
    "refused StartDate EndDate": "a schedule of fnd has no beginning and no end: remove the key, or the event",
};

/// The means to use in place of other events. The first part of a row is `VERDICT TYPE ...`.
pub(super) const EVENTS: KeyTexts = fnd_manifest::texts! {
    "not-here S3": "there are no buckets here: `[[file]]` runs a function when files change",
    "not-here SNS SQS Kinesis DynamoDB DocumentDB MQ MSK SelfManagedKafka":
        "fnd reads no streams of AWS: `[[nats]]` takes messages of NATS, `fndctl invoke F --async` queues a call",
    "not-here CloudWatchEvent EventBridgeRule": "`[[event]]` runs a function on CloudEvents",
    "not-here CloudWatchLogs IoTRule AlexaSkill Cognito": "it happens at AWS only; `[[http]]` takes calls of other programs",
};

/// Returns the note on a property that SAM does not know, with the one that may be meant.
pub(super) fn unknown(key: &str) -> String {
    unknown_key("a function of SAM has no such property", key, FUNCTION, READ)
}

/// Says whether an event happens at AWS only.
pub(super) fn is_of_aws(kind: &str) -> bool {
    let mut kinds = EVENTS.iter().flat_map(|(head, _)| head.split(' ').skip(1));
    kinds.any(|known| known == kind)
}

/// Returns what to do with a function of another runtime.
pub(super) fn advice(runtime: &str) -> String {
    let language = runtime.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == 'x');
    match language {
        "python" => {
            "fnd runs Python itself: write `def handler(event, context)`, with the payload in `event[\"data\"]`; or start `awslambdaric` in a `bootstrap`"
        }
        "nodejs" => {
            "fnd runs JavaScript itself, in another form of handler; or start `aws-lambda-ric` in a `bootstrap`"
        }
        "ruby" => "fnd runs Ruby itself, in another form of handler; or start `aws_lambda_ric` in a `bootstrap`",
        "java" | "dotnet" | "dotnetcore" | "go" => {
            "build a program `bootstrap` with the runtime's library, and write `Runtime: provided.al2023`"
        }
        _ => "only `provided`, `provided.al2` and `provided.al2023` run here",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::testing::{check_absent, check_rows, keys_of};

    /// Keys that a file may lack without a row, and why.
    const WITHOUT: KeyTexts = fnd_manifest::texts! {
        "Timeout Architectures": "a row of its own has the default of AWS",
        "Runtime CodeUri Handler PackageType InlineCode ImageUri ImageConfig":
            "what runs is the `bootstrap` in the code",
        "MemorySize": "fnd's default gives more than the 128 MB of AWS",
        "Events FunctionUrlConfig": "nothing calls it by itself",
        "Role RolePath Policies PermissionsBoundary AssumeRolePolicyDocument": "fnd has no IAM",
        "AutoPublishAlias AutoPublishAliasAllProperties AutoPublishCodeSha256 CapacityProviderConfig \
         CodeSigningConfigArn DeadLetterQueue DeploymentPreference Description DurableConfig Environment \
         FileSystemConfigs FunctionName FunctionScalingConfig KmsKeyArn Layers LoggingConfig PropagateTags \
         ProvisionedConcurrencyConfig PublishToLatestPublished RecursiveLoop RuntimeManagementConfig SnapStart \
         SourceKMSKeyArn Tags TenancyConfig Tracing VersionDeletionPolicy VersionDescription VpcConfig":
            "both have nothing of it",
    };

    #[test]
    fn rows_have_verdicts() {
        check_rows(&[
            FILE, RESOURCES, API, GLOBALS, ATTRIBUTES, FUNCTION, ROUTE, SCHEDULE, EVENTS,
        ]);
    }

    #[test]
    fn a_misspelt_property_is_recognised() {
        for (key, expected) in [
            (
                "MemorySise",
                "a function of SAM has no such property; did you mean `MemorySize`?",
            ),
            (
                "Layer",
                "a function of SAM has no such property; did you mean `Layers`?",
            ),
            ("Cooking", "a function of SAM has no such property"),
        ] {
            assert_eq!(unknown(key), expected);
        }
    }

    #[test]
    fn every_key_has_a_verdict_where_it_is_absent() {
        let keys = READ.split_ascii_whitespace().chain(keys_of(FUNCTION)).collect();
        check_absent(keys, ABSENT, WITHOUT);
    }
}
