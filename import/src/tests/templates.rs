//! Templates of AWS SAM.

use super::{D, N, PublishedFile, R, W, check};
use crate::sam::tests::made;

#[test]
fn templates_of_programs_with_a_bootstrap() {
    let files: [PublishedFile; 10] = [
        (
            "AWSTemplateFormatVersion: '2010-09-09'\nTransform: AWS::Serverless-2016-10-31\nDescription: >\n  greeter\n\nGlobals:\n  Function:\n    Timeout: 3\n\
             Resources:\n  GreetFunction:\n    Type: AWS::Serverless::Function\n    Metadata: {BuildMethod: rust-cargolambda}\n    Properties:\n\
             \x20     CodeUri: ./greeter\n      Handler: bootstrap\n      Runtime: provided.al2023\n      Architectures: [x86_64]\n      Events:\n        Greet:\n\
             \x20         Type: Api\n          Properties: {Path: /greet, Method: get}\n\
             Outputs:\n  GreetApi: {Value: !Sub 'https://${ServerlessRestApi}.execute-api.${AWS::Region}.amazonaws.com/Prod/greet/'}\n",
            1,
            &[
                ("GreetFunction.Metadata", D),
                ("GreetFunction.Timeout", W),
                ("GreetFunction.Events.Greet.Path", D),
                ("GreetFunction.Events.Greet.Auth", D),
                ("Outputs", N),
            ],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nGlobals:\n  Function:\n    MemorySize: 128\n    Handler: bootstrap\n    Timeout: 5\n    Runtime: provided.al2\nResources:\n\
             \x20 PutOrder:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: ../build/put/\n      Policies: [{DynamoDBCrudPolicy: {TableName: !Ref Orders}}]\n\
             \x20     Environment: {Variables: {TABLE: !Ref Orders}}\n  GetOrder:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: ../build/get/\n\
             \x20     Events: {Api: {Type: HttpApi, Properties: {Path: '/orders/{id}', Method: GET}}}\n  Orders:\n    Type: AWS::DynamoDB::Table\n    Properties: {BillingMode: PAY_PER_REQUEST}\n",
            1,
            &[
                ("PutOrder.Environment.TABLE", R),
                ("PutOrder.Policies", N),
                ("GetOrder.Events.Api.Method", W),
                ("Orders", N),
            ],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nParameters:\n  Stage: {Type: String, Default: dev, AllowedValues: [dev, live]}\n  LogLevel: {Type: String, Default: info}\nResources:\n\
             \x20 Cleaner:\n    Type: AWS::Serverless::Function\n    Properties:\n      FunctionName: !Sub cleaner-${Stage}\n      CodeUri: cleaner.zip\n      Handler: main\n      Runtime: provided.al2\n\
             \x20     Environment: {Variables: {RUST_LOG: !Ref LogLevel}}\n      Events:\n        Nightly:\n          Type: Schedule\n          Properties:\n            Schedule: cron(0 1 * * ? *)\n            Name: nightly\n            Enabled: true\n",
            1,
            &[
                ("Cleaner.FunctionName", W),
                ("Cleaner.Environment.RUST_LOG", W),
                ("Cleaner.Events.Nightly.Schedule", W),
                ("Cleaner.Events.Nightly.Enabled", W),
            ],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nResources:\n  Front:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: target/lambda/front\n      Handler: bootstrap\n      Runtime: provided.al2023\n\
             \x20     Layers: [!Sub 'arn:aws:lambda:${AWS::Region}:753240598075:layer:LambdaAdapterLayerX86:20']\n      FunctionUrlConfig: {AuthType: NONE, InvokeMode: RESPONSE_STREAM}\n",
            0,
            &[
                ("Front.Layers", R),
                ("Front.FunctionUrlConfig.AuthType", D),
                ("Front.FunctionUrlConfig.InvokeMode", W),
            ],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nResources:\n  Worker:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: worker/\n      Handler: bootstrap\n      Runtime: provided.al2023\n\
             \x20     ReservedConcurrentExecutions: 5\n      EventInvokeConfig: {MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 300, DestinationConfig: {OnFailure: {Type: SQS, Destination: !GetAtt Bad.Arn}}}\n\
             \x20     Events:\n        Jobs: {Type: SQS, Properties: {Queue: !GetAtt Jobs.Arn, BatchSize: 10}}\n        Files: {Type: S3, Properties: {Bucket: !Ref In, Events: 's3:ObjectCreated:*'}}\n\
             \x20 Jobs: {Type: AWS::SQS::Queue}\n  Bad: {Type: AWS::SQS::Queue}\n  In: {Type: AWS::S3::Bucket}\n",
            0,
            &[
                ("Worker.Events", R),
                ("Worker.EventInvokeConfig.MaximumRetryAttempts", W),
                ("Worker.EventInvokeConfig.MaximumEventAgeInSeconds", D),
                ("Worker.EventInvokeConfig.DestinationConfig", N),
                ("Worker.Events.Jobs", N),
                ("Worker.Events.Files", N),
                ("Jobs", N),
            ],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nGlobals:\n  Api:\n    Auth: {DefaultAuthorizer: Users, Authorizers: {Users: {UserPoolArn: !GetAtt Pool.Arn}}}\n  Function: {Runtime: provided.al2023, Tracing: Active, Tags: {team: shop}}\n\
             Resources:\n  Cart:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: cart/\n      Handler: bootstrap\n      Events:\n\
             \x20       Add: {Type: Api, Properties: {Path: /cart, Method: post}}\n        Health: {Type: Api, Properties: {Path: /health, Method: get, Auth: {Authorizer: NONE}}}\n\
             \x20 Pool: {Type: AWS::Cognito::UserPool}\n",
            1,
            &[
                ("Cart.Tracing", N),
                ("Cart.Tags.team", W),
                ("Cart.Events.Add.Auth", D),
                ("Cart.Events.Health.Auth", D),
            ],
        ),
        (
            "Transform: [AWS::Serverless-2016-10-31]\nConditions:\n  HasNet: !Not [!Equals [!Ref Net, '']]\nParameters: {Net: {Type: String, Default: ''}}\nResources:\n\
             \x20 Probe:\n    Type: AWS::Serverless::Function\n    DependsOn: Log\n    Properties:\n      CodeUri: probe\n      Handler: bootstrap\n      Runtime: provided.al2023\n\
             \x20     VpcConfig: !If [HasNet, {SubnetIds: [!Ref Net]}, !Ref 'AWS::NoValue']\n      LoggingConfig: {LogGroup: !Ref Log}\n\
             \x20     Events: {Every: {Type: ScheduleV2, Properties: {ScheduleExpression: 'rate(1 minute)', RetryPolicy: {MaximumRetryAttempts: 0}}}}\n\
             \x20 Log: {Type: AWS::Logs::LogGroup, Properties: {RetentionInDays: 7}}\n",
            1,
            &[
                ("Probe.LoggingConfig", N),
                ("Probe.Events.Every.ScheduleExpression", W),
                ("Probe.Events.Every.RetryPolicy", N),
                ("Probe.Events.Every", D),
                ("Log", N),
            ],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nResources:\n  Front:\n    Type: AWS::Serverless::HttpApi\n    Properties:\n      Auth:\n        DefaultAuthorizer: Check\n\
             \x20       Authorizers: {Check: {FunctionArn: !GetAtt Checker.Arn, AuthorizerPayloadFormatVersion: '2.0', EnableSimpleResponses: true}}\n\
             \x20 Allow: {Type: AWS::Lambda::Permission, Properties: {FunctionName: !Ref Checker, SourceArn: !Sub 'arn:aws:execute-api:${AWS::Region}:${AWS::AccountId}:${Front}/*'}}\n\
             \x20 Work:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: .build/Work.zip\n      Timeout: 60\n      Handler: work\n      Runtime: provided.al2\n\
             \x20     Events: {Any: {Type: HttpApi, Properties: {ApiId: !Ref Front, Path: /demo, Method: ANY}}}\n\
             \x20 Checker:\n    Type: AWS::Serverless::Function\n    Properties: {CodeUri: .build/Checker.zip, Handler: check, Runtime: provided.al2, Timeout: 29}\n",
            2,
            &[
                ("Front.Auth", D),
                ("Allow", N),
                ("Work.Events.Any.Auth", D),
                ("Work.Events", D),
                ("Checker.Timeout", W),
            ],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nParameters:\n  Name: {Type: String, Default: ''}\n  When: {Type: String, Default: 'rate(15 minutes)'}\n\
             \x20 Wait: {Type: Number, Default: 300, MinValue: 1}\n  Token: {Type: String, Default: abc, NoEcho: true}\n\
             Conditions:\n  Named: !Not\n    - !Equals\n      - !Ref Name\n      - ''\n  Timed: !Not [!Equals [!Ref When, '']]\n  Wanted: !Or [!Condition Named, !Condition Timed]\n\
             Resources:\n  Sync:\n    Type: AWS::Serverless::Function\n    Condition: Wanted\n    Properties:\n      FunctionName: !If [Named, !Ref Name, !Ref AWS::NoValue]\n\
             \x20     CodeUri: dist\n      Runtime: provided.al2\n      Handler: bootstrap\n      Timeout: !Ref Wait\n      ReservedConcurrentExecutions: 1\n\
             \x20     Environment: {Variables: {NAME: !If [Named, !Ref Name, !Ref AWS::NoValue], TOKEN: !Ref Token}}\n\
             \x20     Events: {Tick: {Type: Schedule, Properties: {Enabled: !If [Timed, true, false], Schedule: !Ref When}}}\n",
            1,
            &[
                ("Sync.Timeout", W),
                ("Sync.Environment.TOKEN", D),
                ("Sync.Events.Tick.Enabled", W),
                ("Sync.Events.Tick.Schedule", W),
            ],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nParameters: {DbName: {Type: String, Default: shop}}\nResources:\n  Secret: {Type: AWS::SecretsManager::Secret}\n\
             \x20 Orders:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: .build/Orders.zip\n      Handler: orders\n      Runtime: provided.al2\n      Environment:\n        Variables:\n\
             \x20         DB_USER: !Join ['', ['{{resolve:secretsmanager:', !Ref Secret, ':SecretString:username}}']]\n\
             \x20         DB_PASSWORD: '{{resolve:secretsmanager:shop:SecretString:password}}'\n          DB_NAME: !Ref DbName\n\
             \x20         CERT: /var/task/certs/cert.pem\n      Events: {Any: {Type: HttpApi}}\n",
            0,
            &[
                ("Orders.Environment.DB_USER", R),
                ("Orders.Environment.DB_PASSWORD", R),
                ("Orders.Environment.DB_NAME", W),
                ("Orders.Environment.CERT", D),
                ("Secret", N),
            ],
        ),
    ];
    check(&files, made);
}

#[test]
fn templates_of_other_runtimes() {
    let files: [PublishedFile; 3] = [
        (
            "Transform: AWS::Serverless-2016-10-31\nResources:\n  Hello:\n    Type: AWS::Serverless::Function\n    Properties:\n      CodeUri: hello/\n      Handler: app.handler\n      Runtime: python3.12\n\
             \x20     Events: {Get: {Type: Api, Properties: {Path: /hello, Method: get}}}\n",
            0,
            &[("Hello.Runtime", R), ("Hello.CodeUri", N), ("Hello.Events", N)],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nGlobals: {Function: {Runtime: nodejs20.x, Timeout: 30}}\nResources:\n  Web:\n    Type: AWS::Serverless::Function\n\
             \x20   Metadata: {BuildMethod: esbuild, BuildProperties: {Minify: true}}\n    Properties: {CodeUri: web/, Handler: app.handler}\n\
             \x20 Native:\n    Type: AWS::Serverless::Function\n    Metadata: {BuildMethod: makefile}\n    Properties: {CodeUri: native/, Handler: bootstrap, Runtime: provided.al2023}\n",
            1,
            &[("Web.Runtime", R), ("Native.Runtime", D)],
        ),
        (
            "Transform: AWS::Serverless-2016-10-31\nResources:\n  Boxed:\n    Type: AWS::Serverless::Function\n    Properties: {PackageType: Image, ImageUri: 'x:latest'}\n\
             \x20   Metadata: {Dockerfile: Dockerfile, DockerContext: .}\n  Plain:\n    Type: AWS::Lambda::Function\n    Properties: {Runtime: provided.al2, Code: build/}\n",
            0,
            &[("Boxed.PackageType", R), ("Boxed.ImageUri", R), ("Plain", R)],
        ),
    ];
    check(&files, made);
}
