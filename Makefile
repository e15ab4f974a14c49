# make test is all that CI runs. What needs longer has a target of its own.

GO ?= go
TESTRUN := $(GO) run -C internal/tools ./testrun

.PHONY: test lint bench soak fuzz mutants generate

test:
	$(GO) build ./...
	$(GO) vet ./...
	$(TESTRUN) -C $(CURDIR) -race ./...
	$(TESTRUN) -C $(CURDIR) ./internal/sim -run 'TestDecisions' -sim.seeds=2000
	$(TESTRUN) ./...
	$(GO) run -C internal/tools ./mutants -check

# Everything that a seed can break, many more of them.
soak:
	$(GO) test ./internal/sim -count=1 -timeout 12h -run 'TestDecisions|TestRunner' -v -sim.seeds=100000 -sim.runner.seeds=2000

# Breaks the code on purpose, one way at a time; the test named for each must fail.
mutants:
	$(GO) run -C internal/tools ./mutants

lint:
	$(GO) tool -modfile=internal/lint/go.mod golangci-lint run ./...

generate:
	$(GO) run -C internal/tools ./generate
