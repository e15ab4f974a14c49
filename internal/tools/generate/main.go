// Generate writes all generated code of the module: protobuf and mocks. Run it in the folder of
// this module; it writes the files into the tree, or below -out.
//
//	go run ./generate
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// protoFiles are the .proto files, relative to the root of the module. The Go code of each is in
// the same folder.
var protoFiles = []string{
	"dlt/sawtooth/internal/pb/sawtooth.proto",
}

// mockFile is a file of mocks: one for each interface of a source file that excluded does not
// name.
type mockFile struct {
	source, file string // relative to the root of the module
	pkg          string
	excluded     string // names of interfaces, separated by commas
}

// mockFiles are for the small interfaces whose single answers a user's test sets. The whole store
// has no mock, because a test uses store/memory. An interface that an application or a client
// implements itself has no mock either, because a test calls it.
var mockFiles = []mockFile{
	{source: "dlt/ledger.go", file: "dlt/dltmock/mock.go", pkg: "dltmock", excluded: "Resolver,Checker"},
	{source: "store/batchstore.go", file: "store/storemock/mock.go", pkg: "storemock"},
	{source: "monitor/monitor.go", file: "monitor/monitormock/mock.go", pkg: "monitormock"},
}

func main() {
	root := flag.String("root", "../..", "the root of the module that is read")
	out := flag.String("out", "", "the root of what is written (default: -root)")
	flag.Parse()
	if *out == "" {
		*out = *root
	}
	if err := generate(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate reads sources below root and writes the generated code below out.
func generate(root, out string) error {
	for _, p := range protoFiles {
		// protogen writes its output into the folder of its input.
		text, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			return err
		}
		target := filepath.Join(out, p)
		if err := writeIfChanged(target, text); err != nil {
			return err
		}
		if err := runGo("run", "./protogen", target); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	for _, m := range mockFiles {
		target := filepath.Join(out, m.file)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		args := []string{
			"tool", "mockgen", "-write_source_comment=false", "-write_command_comment=false", "-write_package_comment=false",
			"-source", filepath.Join(root, m.source), "-destination", target, "-package", m.pkg,
		}
		if m.excluded != "" {
			args = append(args, "-exclude_interfaces", m.excluded)
		}
		if err := runGo(args...); err != nil {
			return fmt.Errorf("%s: %w", m.source, err)
		}
	}
	return nil
}

// writeIfChanged writes a file, unless the file has this text already.
func writeIfChanged(file string, text []byte) error {
	if old, err := os.ReadFile(file); err == nil && string(old) == string(text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func runGo(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
