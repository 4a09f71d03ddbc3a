// Compiles functions: `build fnd-build.json GO` (docs/dependencies.md); GO is the path of the program `go`.
//
// fnd runs it as the function `fnd-build`, in a directory with the files of the function. It leaves the program and the file
// `.fnd-packages`, which tells that the tree is complete, in `$STATE_DIRECTORY/NAME`; NAME is that of the directory above.
// Exit 75: the network is the reason, and another attempt may succeed. Exit 65: it is not.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
)

const (
	transient, failed = 75, 65
	// The modules with the types of handlers and the workers; they are beside this file, in `lib` and `rafay`.
	library = "github.com/kubeless/kubeless"
	rafay   = "github.com/RafaySystems/function-templates/sdk/go"
)

// forms of handlers: the types of their parameters, the name that is taken where several fit, and how people write them.
var forms = []form{
	{[]string{"Event", "Context"}, "Handler", "func %s(functions.Event, functions.Context) (string, error)", library},
	{[]string{"Context", "Logger", "Request"}, "Handle", "func %s(context.Context, sdk.Logger, sdk.Request) (sdk.Response, error)", rafay},
}

type form struct {
	types         []string
	name, written string
	// The module whose package `worker` serves it.
	module string
}

// Messages of go about the network or the proxy.
var network = regexp.MustCompile(`dial tcp|i/o timeout|connection re(fused|set)|no such host|TLS handshake|50[0-9] |unexpected EOF|unreachable`)

// What go says about its work.
var news = regexp.MustCompile(`^(#|go: (downloading|finding|found|creating|to add|added|upgraded) )`)

// Where go says what is wrong with the code: `./hello.go:5:2: undefined: x`.
var place = regexp.MustCompile(`^\S+\.go:\d+(:\d+)?: `)

// request is what fnd asks for.
type request struct {
	List    []string
	File    string
	Program struct{ Entry, Handler, Mode string }
}

// clear removes what a compilation has left: it may fill the disk. The reason of a failure matters more than an error here.
func clear() {
	state := os.Getenv("STATE_DIRECTORY")
	entries, _ := os.ReadDir(state)
	for _, entry := range entries {
		os.RemoveAll(filepath.Join(state, entry.Name()))
	}
}

func failWith(status int, why string) {
	clear()
	fmt.Fprintln(os.Stderr, why)
	os.Exit(status)
}

func must(err error) {
	if err != nil {
		failWith(failed, err.Error())
	}
}

// run runs go in a directory; shows its output, and ends with the reason if it fails. Returns the output.
func run(dir string, arguments ...string) []string {
	fmt.Println("+ go " + strings.Join(arguments, " "))
	command := exec.Command(os.Args[2], arguments...)
	command.Dir = dir
	output, err := command.StdoutPipe()
	must(err)
	command.Stderr = command.Stdout
	must(command.Start())
	var lines []string
	// Not a Scanner: it stops at a long line, and go would wait for ever for somebody who reads on.
	for reader := bufio.NewReader(output); err == nil; {
		var line string
		if line, err = reader.ReadString('\n'); line != "" {
			line = strings.TrimSuffix(line, "\n")
			fmt.Println(line)
			lines = append(lines, line)
		}
	}
	if command.Wait() == nil {
		return lines
	}
	// The first line with a place in the code, else the first one that is no news about its work.
	why, atPlace, status := "", false, failed
	for _, line := range lines {
		line = strings.TrimPrefix(strings.TrimSpace(line), "./")
		found := place.MatchString(line)
		if line != "" && !atPlace && (found || why == "" && !news.MatchString(line)) {
			why, atPlace = line, found
		}
		if network.MatchString(line) {
			status = transient
		}
	}
	if !atPlace {
		why = "go: " + strings.TrimPrefix(why, "go: ")
	}
	failWith(status, why)
	return nil
}

// copyFiles copies the function's files.
func copyFiles(from, to, without string) {
	must(filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || file == without {
			return err
		}
		relative, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	}))
}

// formOf returns the form of a handler by its parameters; nil for another function.
func formOf(function *ast.FuncDecl) *form {
	var types []string
	for _, field := range function.Type.Params.List {
		name := ""
		switch kind := field.Type.(type) {
		case *ast.SelectorExpr:
			name = kind.Sel.Name
		case *ast.Ident:
			name = kind.Name
		}
		types = append(types, name)
		for index := 1; index < len(field.Names); index++ {
			types = append(types, name)
		}
	}
	for index := range forms {
		if function.Recv == nil && reflect.DeepEqual(types, forms[index].types) && function.Type.Results.NumFields() == 2 {
			return &forms[index]
		}
	}
	return nil
}

// find returns the name of the package and of the handler in a directory, and its form.
func find(dir, wanted string) (string, string, *form) {
	packages, err := parser.ParseDir(token.NewFileSet(), dir, func(info fs.FileInfo) bool {
		return !strings.HasSuffix(info.Name(), "_test.go")
	}, 0)
	if err != nil {
		failWith(failed, strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	var handlers []string
	known := map[string]*form{}
	name := ""
	for found, content := range packages {
		name = found
		for _, file := range content.Files {
			for _, imported := range file.Imports {
				if strings.Trim(imported.Path.Value, "`\"") == rafay+"/pkg/state" {
					failWith(failed, "`pkg/state` of Rafay's SDK is not supported; fnd has no such state store: keep state in files below $STATE_DIRECTORY")
				}
			}
			for _, declared := range file.Decls {
				if function, is := declared.(*ast.FuncDecl); is && formOf(function) != nil {
					handlers = append(handlers, function.Name.Name)
					known[function.Name.Name] = formOf(function)
				}
			}
		}
	}
	chosen := ""
	for _, handler := range handlers {
		if handler == wanted || wanted == "" && (len(handlers) == 1 || handler == known[handler].name) {
			chosen = handler
		}
	}
	switch {
	case chosen == "" && wanted != "":
		failWith(failed, fmt.Sprintf("the file has no `"+forms[0].written+"`, which `handler` of the manifest names", wanted))
	case chosen == "" && len(handlers) > 1:
		failWith(failed, "the file has several handlers: "+strings.Join(handlers, ", ")+"; name one with `handler` in the manifest")
	case chosen == "":
		failWith(failed, fmt.Sprintf("the file has no `"+forms[0].written+"`", forms[0].name))
	case name != "main" && !ast.IsExported(chosen):
		failWith(failed, fmt.Sprintf("`%s` cannot be called from outside of package `%s`: begin its name with a capital letter", chosen, name))
	}
	return name, chosen, known[chosen]
}

// writeMain writes the program that serves a handler, and returns its directory and the modules that it needs.
func writeMain(work, dir, module, wanted string) (string, []string) {
	name, handler, form := find(filepath.Join(work, dir), wanted)
	target, imported, call := dir, "", handler
	if name != "main" {
		target, call = "fnd-worker", "function."+handler
		imported = fmt.Sprintf("\tfunction %q\n", path.Join(module, dir))
	}
	of, needs := "worker", []string{library}
	if form.module != library {
		of, needs = "form", append(needs, form.module)
		imported += fmt.Sprintf("\tform %q\n", form.module+"/worker")
	}
	code := fmt.Sprintf("package main\n\nimport (\n%s\t%q\n)\n\nfunc main() { worker.Serve(%q, %s.Of(%s)) }\n",
		imported, library+"/worker", handler, of, call)
	must(os.MkdirAll(filepath.Join(work, target), 0o755))
	must(os.WriteFile(filepath.Join(work, target, "fnd_worker_main.go"), []byte(code), 0o644))
	return target, needs
}

func main() {
	file, err := filepath.EvalSymlinks(os.Args[1])
	must(err)
	content, err := os.ReadFile(file)
	must(err)
	var wanted request
	must(json.Unmarshal(content, &wanted))
	code, state := filepath.Dir(file), os.Getenv("STATE_DIRECTORY")
	clear()
	tree := filepath.Join(state, filepath.Base(filepath.Dir(code)))
	work := filepath.Join(state, "work")
	must(os.MkdirAll(tree, 0o755))
	copyFiles(code, work, file)
	entry := filepath.ToSlash(wanted.Program.Entry)
	isFile := func(name string) bool { _, err := os.Stat(filepath.Join(work, name)); return err == nil }

	if wanted.File != "" && wanted.File != "go.mod" {
		failWith(failed, "`"+wanted.File+"`: go wants its list of modules as `go.mod` beside the code")
	}
	if !isFile("go.mod") {
		run(work, "mod", "init", "function")
	}
	module := ""
	for _, line := range strings.Split(string(read(filepath.Join(work, "go.mod"))), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "module" {
			module = strings.Trim(words[1], `"`)
		}
	}
	target := path.Dir(entry)
	if wanted.Program.Mode == "handler" {
		_, myself, _, _ := runtime.Caller(0)
		var needs []string
		target, needs = writeMain(work, target, module, wanted.Program.Handler)
		places := map[string]string{library: "lib", rafay: "rafay"}
		for _, need := range needs {
			run(work, "mod", "edit", "-require="+need+"@v0.0.0", "-replace="+need+"="+filepath.Join(filepath.Dir(myself), places[need]))
		}
	}
	if os.Getenv("FND_OFFLINE") != "" {
		must(os.Setenv("GOPROXY", "off"))
	}
	for _, item := range wanted.List {
		run(work, "get", item)
	}
	// A lock is never changed: what it does not have is an error.
	if !isFile("go.sum") || len(wanted.List) > 0 {
		run(work, "mod", "tidy")
	}
	run(work, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(tree, "program"), "./"+target)
	var packages strings.Builder
	for _, line := range run(work, "list", "-m", "-f", "{{if not .Main}}{{.Path}} {{.Version}}{{end}}", "all") {
		if line != "" && !strings.HasPrefix(line, library+" ") && !strings.HasPrefix(line, rafay+" ") {
			packages.WriteString(line + "\n")
		}
	}
	must(os.WriteFile(filepath.Join(tree, ".fnd-packages"), []byte(packages.String()), 0o644))
	fmt.Println("compiled " + entry)
}

func read(file string) []byte {
	content, err := os.ReadFile(file)
	must(err)
	return content
}
