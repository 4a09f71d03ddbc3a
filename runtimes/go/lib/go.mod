module github.com/kubeless/kubeless

go 1.18
