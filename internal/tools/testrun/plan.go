package main

import "slices"

// goCommand is one go command, in the folder of a module.
type goCommand struct {
	module string
	args   []string
}

// commandPlans are the commands to run, by the argument. Stages run one after the other. The lines
// of a stage run at the same time, since each of them waits at times. The runs of a line run one
// after the other.
var commandPlans = map[string]func() [][][]goCommand{
	// This plan runs between two edits. It tests four packages at a time, because many tests wait
	// for sockets: with two at a time 175 s of CPU took 219 s.
	"quick": func() [][][]goCommand {
		return [][][]goCommand{{{
			{module: ".", args: []string{"test", "-short", "-p=4", "./..."}},
			{module: "internal/tools", args: []string{"test", "-short", "./..."}},
		}}}
	},
	// This plan runs in CI. go vet compiles each package first, so that no two lines compile it at
	// the same time.
	"test": func() [][][]goCommand {
		var vets, modules []goCommand
		for _, m := range []string{".", "internal/integration", "internal/tools", "internal/yard", "examples/metrics", "examples/service"} {
			vets = append(vets, goCommand{module: m, args: []string{"vet", "./..."}})
		}
		for _, m := range []string{".", "internal/tools", "internal/yard", "examples/metrics", "examples/service"} {
			modules = append(modules, goCommand{module: m, args: []string{"test", "./..."}})
		}
		return [][][]goCommand{{vets}, {
			modules,
			{{module: "internal/integration", args: []string{"test", "-parallel=4", "./..."}}},
			{
				{module: ".", args: slices.Concat([]string{"test", "-race"}, racedPackages)},
				{module: "internal/integration", args: []string{"test", "-race", "."}},
			},
		}}
	},
}

// modulesLeftOut are the modules that make test leaves out, with the command that tests them.
var modulesLeftOut = map[string]string{
	"internal/lint":           "nothing: it has no code",
	"internal/browser":        "make browser",
	"dlt/evm/internal/oracle": "make fuzz",
}

// racedPackages are the packages that make test also runs with the race detector: those in which
// the module's own goroutines share memory, and packages whose tests run several processes.
var racedPackages = []string{
	".", "./batch/autobatch", "./queuer", "./submitter", "./store/memory", "./store/sqlite",
	"./internal/ask", "./internal/groups", "./internal/inhand", "./internal/lanes", "./internal/loop", "./internal/pool",
	"./internal/sim",
	"./dlt", "./dlt/memory", "./dlt/internal/wire", "./dlt/sawtooth", "./dlt/splinter", "./dlt/canton", "./dlt/evm",
	// In the tests of these packages dlt/dlttest calls the methods of a client from many
	// goroutines.
	"./dlt/sawtooth/sawtoothtest", "./dlt/splinter/splintertest", "./dlt/canton/cantontest",
	"./otelbatch", "./probe", "./console",
}
