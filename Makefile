# make quick is for between two edits, make test is all that CI runs. What needs longer has a target of
# its own.

GO ?= go
TESTRUN := $(GO) run -C internal/tools ./testrun

.PHONY: test quick lint bench bench-page compare soak fuzz mutants generate browser docs

# Everything that fits in ten minutes on two cores, with servers, and with the race detector where
# much happens at once: internal/tools/testrun says what runs, internal/tier what a test says of itself.
# PostgreSQL, PgBouncer and anvil, an EVM node, are found or brought, and started for the tests;
# promtool, which runs the alerts, is found or brought, too.
test:
	$(TESTRUN) test
	$(GO) run -C internal/tools ./mutants -check

# Between two edits: no server, no race detector, and nothing that takes long.
quick:
	$(TESTRUN) quick

# Everything that a seed can break, many more of them, and the tests that say so themselves (tier.Soak).
# The whole takes most of a day on two cores. PART=10 runs a tenth of its seeds, steps, kills, faults
# and time, but no less than make test does, and all that has no such number: that takes about four hours.
# Each line prints its figures, and ends with how long it took. A target of SOAK runs alone, too, and
# --keep-going runs the others after one that failed.
SOAK := soak-build soak-sim soak-models soak-nodes soak-evm soak-retention soak-crash soak-postgres soak-deaf \
	soak-steady soak-patroni soak-chaos
.PHONY: $(SOAK)
$(SOAK): export DLTBATCH_SOAK = 1
soak: $(SOAK)
	$(MAKE) browser

PART ?= 1
# $(call part,n,least) is the part of n, and not less than least.
part = $(shell n=$$(( $(1) / $(PART) )); echo $$(( n > $(2) ? n : $(2) )))

soak-build:
	CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/dltbatch ./examples/quickstart
soak-sim:
	$(GO) test ./internal/sim -count=1 -timeout 24h -v -sim.seeds=$(call part,100000,1000) \
		-sim.runner.seeds=$(call part,2000,100) -sim.walk.steps=$(call part,400000000,2000000) -sim.evidence
soak-models:
	$(GO) test ./internal/position -count=1 -timeout 4h -v -position.large -position.walks=$(call part,20000,10)
	$(GO) test ./internal/evmmodel -count=1 -timeout 2h -v -evmmodel.large
soak-nodes:
	$(GO) test ./dlt/canton/cantontest -count=1 -timeout 2h -v -canton.poisonous
	$(GO) test ./internal/geth -count=1 -timeout 2h -v
	$(GO) test ./dlt/evm/evmtest -count=1 -timeout 2h -v -evm.steps=$(call part,5000,50)
soak-evm:
	$(GO) test ./dlt/evm -count=1 -timeout 36h -v -evm.seeds=$(call part,10000,6) -evm.rate.seeds=$(call part,1000,1)
soak-retention:
	$(GO) test . -count=1 -timeout 2h -v -retention.time=$(call part,24,2)h
soak-crash:
	$(GO) test ./internal/crash -count=1 -timeout 12h -v -crash.kills=$(call part,100,6) -crash.orders=$(call part,50,2)
soak-postgres:
	@set -e; for version in 14 15 16 17 18; do echo "PostgreSQL $$version"; \
		DLTBATCH_TEST_POSTGRES_VERSION=$$version $(GO) test -C internal/integration . -count=1 -timeout 2h; \
	done
	$(GO) test -C internal/integration . -count=1 -timeout 2h -v -run TestNoLaneStandsStill -stall.time=$(call part,3600,10)s
soak-deaf:
	$(GO) test -tags dltbatch_deaf ./... -count=1 -timeout 2h
	$(GO) test -C internal/integration . -tags dltbatch_deaf -count=1 -timeout 2h
soak-steady:
	$(GO) test -C internal/integration ./scale -run none -bench Steady -benchtime 1x -timeout 12h -v -soak.time=$(call part,3600,600)s
soak-patroni:
	$(GO) test -C internal/integration ./chaos -count=1 -timeout 4h -v -run TestPatroni \
		-patroni.time=$(call part,1800,120)s -patroni.faults=$(call part,450,30)
soak-chaos:
	$(GO) test -C internal/integration ./chaos -count=1 -timeout 12h -v -skip TestPatroni \
		-chaos.time=$(call part,1800,60)s -chaos.faults=$(call part,1000,40) -chaos.orders=$(call part,50,2)
	@set -e; for seed in $$(seq 2 $$((1 + $(call part,10,1)))); do echo "seed $$seed"; \
		$(GO) test -C internal/integration ./chaos -count=1 -timeout 2h -v -skip TestPatroni -chaos.seed=$$seed \
			-chaos.time=8m -chaos.faults=1000; \
	done

# The console in a real Chromium, which is found or brought: ten incidents, and every page.
browser:
	$(GO) test -C internal/browser -count=1 -timeout 30m -v ./...

# The pictures of the console in docs/operations.md.
docs:
	mkdir -p docs/console
	$(GO) test -C internal/browser -count=1 -run TestPages -args -browser.docs="$(CURDIR)/docs/console"

# Breaks the code on purpose, one change at a time: the promises, each in ways that one named test
# must notice, and small changes that the week's number chooses, which any test may notice.
mutants:
	$(GO) run -C internal/tools ./mutants -promises
	$(GO) run -C internal/tools ./mutants

lint:
	$(GO) tool -modfile=internal/lint/go.mod golangci-lint run ./...
	cd internal/browser && $(GO) tool -modfile=$(CURDIR)/internal/lint/go.mod golangci-lint run ./...

generate:
	$(GO) run -C internal/tools ./generate

# How fast, and how much memory, against the floor and a good job queue: hours.
# go run -C internal/yard . -help says how to measure less, make compare compares trees.
bench:
	$(MAKE) bench-page
	$(GO) test ./... -run none -bench . -benchmem -timeout 2h
	$(GO) test ./internal/sim -count=1 -run TestSpeedUp -v -sim.curve
	$(GO) test -C internal/integration ./scale -run none -bench 'Backlog|Drain' -benchtime 1x -timeout 4h -v -scale.rows=10000000 -scale.drain=100000 -scale.runs=3
	$(GO) test -C internal/integration ./scale -run none -bench Stats -benchtime 1x -timeout 1h -v -scale.rows=900000 -scale.lanes=100000
	$(GO) test -C internal/integration ./scale -run none -bench Causes -benchtime 5x -timeout 1h -v -scale.rows=1000000 -scale.lanes=100000

# The figures, the table and the plot of docs/performance.md, and nothing else of it: an
# hour or more on a quiet machine. MODE names some, by comma; the others stay.
MODE ?= all
ROUNDS ?= 7
bench-page:
	$(GO) run -C internal/yard . -mode $(MODE) -rounds $(ROUNDS) -docs $(CURDIR)/docs/performance.md

# The packages' benchmarks as they are and as they were at BASE, in turns:
# make compare BASE=main PKG='store/sqlite queuer'
compare:
	$(GO) run -C internal/tools ./compare -base "$(BASE)" $(PKG)

# Every parser of bytes from outside; and the codec of EVM transactions beside go-ethereum's, in a
# module of its own.
FUZZTIME ?= 30s
fuzz:
	@set -e; for pkg in $$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$pkg/*_test.go | cut -d' ' -f2); do \
			echo "$$pkg $$f"; $(GO) test -C $$pkg . -run none -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x; \
		done; done
