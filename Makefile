# make test is all that CI runs. What needs longer has a target of its own.

GO ?= go
TESTRUN := $(GO) run -C internal/tools ./testrun

.PHONY: test integration lint bench soak fuzz mutants generate

# Everything is built with -race, but for the simulation, so that it is built once.
test:
	$(GO) vet -race ./...
	$(TESTRUN) -C $(CURDIR) -race ./...
	$(TESTRUN) -C $(CURDIR) ./internal/sim -run 'TestDecisions' -sim.seeds=2000
	$(TESTRUN) ./...
	$(GO) vet -C internal/bench -race ./...
	$(GO) run -C internal/tools ./mutants -check

# The PostgreSQL store, which is not part of make test yet: with pgx, with lib/pq, and
# through PgBouncer. Finds or installs both servers, and starts its own.
integration:
	$(TESTRUN) -C $(CURDIR)/internal/integration -timeout 30m ./...

# Everything that a seed can break, many more of them.
soak:
	$(GO) test ./internal/sim -count=1 -timeout 12h -run 'TestDecisions|TestRunner' -v -sim.seeds=100000 -sim.runner.seeds=2000
	$(GO) test ./internal/crash -count=1 -timeout 12h -v -crash.kills=100

# Breaks the code on purpose, one way at a time; the test named for each must fail.
mutants:
	$(GO) run -C internal/tools ./mutants

lint:
	$(GO) tool -modfile=internal/lint/go.mod golangci-lint run ./...

generate:
	$(GO) run -C internal/tools ./generate

# How fast, and how much memory; compare two trees with benchstat, never two machines.
bench:
	$(GO) test ./... -run '^$$' -bench . -benchmem -timeout 2h
	$(GO) test -C internal/bench -run '^$$' -bench . -benchtime 20000x -timeout 2h ./...

# Every parser of bytes from outside.
FUZZTIME ?= 30s
fuzz:
	@set -e; for pkg in $$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$pkg/*_test.go | cut -d' ' -f2); do \
			echo "$$pkg $$f"; $(GO) test $$pkg -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x; \
		done; done
