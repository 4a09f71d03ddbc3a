module github.com/RafaySystems/function-templates/sdk/go

go 1.18

require github.com/kubeless/kubeless v0.0.0

replace github.com/kubeless/kubeless => ../lib
