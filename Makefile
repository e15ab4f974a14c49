# make test is all that CI runs. What needs longer has a target of its own.

GO ?= go
TESTRUN := $(GO) run -C internal/tools ./testrun

# Of what waits for PostgreSQL: what runs at once, which is built with -race, and only so. The tests
# of "record" that begin with "every_finding" try values.
RACED := TestStore/native$$/(race|claim|add)$$|TestStore/native$$/record$$/^([^e]|e[^v])|TestTwoRunners|TestManyWriters

# What does not run with every driver. The rules and the statements are one code for all of them,
# and a driver only encodes values. So each group runs with pgx's own pool ("native"), each outcome
# in each state and the model with it alone, and through PgBouncer, which passes bytes on, no group
# that only tries rules. lib/pq encodes in another way: it runs what tries values. pgx's database/sql
# driver encodes as the pool does: like lib/pq through PgBouncer it runs only the groups that add,
# claim, record, ask and act.
RULES := late|model|fence|place|policy|quarantine
VALUES := row|history|text
REST := race|prepared|witnesses|finals?|control|attempts|look|prune|list|lanes|counts|ledger|journal|clock|reopen
ONCE := TestStore/^(pgx|pq|.*pgbouncer)$$/^($(RULES))$$|TestStore/^(pgx|.*pgbouncer)$$/^($(VALUES))$$|TestStore/^(pgx|pq.*pgbouncer)$$/^($(REST))$$|TestStore/^(pgx|pq|.*pgbouncer)$$/^record$$/every_finding

.PHONY: test test-plain test-seeds test-servers lint bench bench-page compare soak fuzz mutants generate browser docs

# What gains nothing from -race: the suite of stores with stores of its own that lack abilities
# (other runs of it are raced), its groups that only try rules and values, pure functions with every
# input, recorded answers of nodes one after another, long simulations on one processor, requests one
# after another to EVM nodes, whose signatures are slow with it (one kind of node, and one seed, is
# raced where several run the same), statements that fail one after another, the walk of the simulation, forms,
# and the programs' -h, which builds them all.
PLAIN := ^TestWalk$$|^TestNobodyWaitsForEver$$|^TestNoAnswerOfAFleetIsFalse$$|^TestAShortFormTakesLittleMemory$$|^TestAResendWindowFromAnAheadClock$$|^TestAnvil|^TestFaults$$/^(anvil|provider)|^TestFaults$$/^geth$$/^[^0]|^TestPlays$$|^TestIntentPlays$$|^TestHeadsPayForMany$$|^TestPlaysOverHTTP$$/^anvil|^TestConformance$$/^anvil|^TestOtherChainOfAnvil$$|^TestCountGoesDown$$|^TestArraysAreHalved$$|^TestTextNotCode$$|^TestRate$$|^TestRateUnevenly$$|^TestRecords$$|^TestRefusals$$|^TestPartial$$|^TestUsage$$|^TestEvidence$$|^TestSpeedUp$$|^TestRetentionKeepsUp$$|^TestAlternativePlays$$|^TestPlaysOfAlternatives$$|^TestAlternativeConformance$$/^anvil|^TestAlternativeFaults$$/^(anvil|provider)|^TestAlternativeFaults$$/^geth$$/^[^0]|^TestAGivenUpIntentIsNotRequeued$$|^TestEveryStatementFails|^TestAWrongNotCommittedPays|^TestDecideEverything$$|^TestTranscripts$$|^TestIntentFaults$$/^(anvil|provider)|^TestIntentFaults$$/^geth$$/^[^0]|^TestStore$$/^($(RULES)|$(VALUES))$$|^TestStore$$/^record$$/every_finding

# Everything is built with -race, but for these, for most seeds of the simulation, and for most
# of what waits for PostgreSQL, of which only what runs at once is raced.
# PostgreSQL, PgBouncer and anvil, an EVM node, are found or installed, and started for the tests;
# promtool, which runs the alerts, is found or taken out of a package.
test:
	$(GO) vet -race ./...
	$(TESTRUN) -C $(CURDIR) -race -p 4 -skip '$(PLAIN)' ./...
	$(GO) vet -C internal/tools ./...
	$(GO) vet -C internal/bench ./...
	$(GO) vet -C internal/yard ./...
	$(GO) vet -C internal/integration -race ./...
	$(GO) vet -C examples/metrics -race ./...
	$(TESTRUN) -C $(CURDIR)/internal/yard ./...
	$(MAKE) -j 3 --output-sync=line test-plain test-seeds test-servers

# Three at once, since each waits at times.
test-plain:
	$(TESTRUN) -C $(CURDIR) ./store/storetest ./store/memory ./store/sqlite ./internal/flaky ./internal/sim ./monitor . ./examples ./examples/toystore ./dlt/sawtooth/sawtoothtest ./dlt/splinter/splintertest ./dlt/canton ./dlt/evm ./dlt/evm/evmtest ./internal/anvil ./console -run '$(PLAIN)'

test-seeds:
	$(TESTRUN) -C $(CURDIR) ./internal/sim -run 'Decisions|Runner' -sim.seeds=2000 -sim.runner.seeds=200
	$(TESTRUN) -C $(CURDIR) ./batch/autobatch -run Simulation -autobatch.seeds=200
	$(TESTRUN) ./...
	$(TESTRUN) -C $(CURDIR)/examples/metrics -race ./...
	$(GO) run -C internal/tools ./mutants -check

test-servers:
	$(TESTRUN) -C $(CURDIR)/internal/integration -parallel 4 -timeout 14m -skip '$(RACED)|$(ONCE)' ./...
	$(TESTRUN) -C $(CURDIR)/internal/integration -race -timeout 14m -run '$(RACED)' .

# Everything that a seed can break, many more of them.
soak:
	$(GO) test ./internal/sim -count=1 -timeout 12h -run 'Decisions|Runner' -v -sim.seeds=100000 -sim.runner.seeds=2000
	$(GO) test ./internal/sim -count=1 -timeout 2h -v -run 'TestWalk$$' -sim.walk.steps=400000000
	$(GO) test ./internal/sim -count=1 -timeout 2h -v -run TestEvidence -sim.evidence
	$(GO) test ./internal/position -count=1 -timeout 4h -v -run TestModel -position.large -position.walks=20000
	$(GO) test ./dlt/canton/cantontest -count=1 -v -run TestPoisonous -canton.poisonous
	$(GO) test ./internal/evmmodel -count=1 -timeout 2h -v -evmmodel.large
	$(GO) test ./dlt/evm -count=1 -timeout 24h -v -run 'TestFaults|TestAlternativeFaults|TestIntentFaults' -evm.seeds=10000
	$(GO) test ./dlt/evm -count=1 -timeout 12h -v -run TestRateUnevenly -evm.rate.seeds=1000
	$(GO) test ./dlt/evm/evmtest -count=1 -timeout 2h -v -run TestAnvilRandomly -evm.steps=5000
	$(GO) test . -count=1 -v -run TestRetentionKeepsUp -retention.time=24h
	$(GO) test ./internal/crash -count=1 -timeout 12h -v -crash.kills=100 -crash.orders=50
	$(GO) test -C internal/integration . -count=1 -timeout 2h -v -run TestNoLaneStandsStill -stall.time=1h
	$(GO) test -C internal/integration ./scale -run '^$$' -bench Steady -benchtime 1x -timeout 12h -v -soak.time=1h
	$(GO) test -C internal/integration ./chaos -count=1 -timeout 12h -v -chaos.time=30m -chaos.faults=1000 -chaos.orders=50
	@set -e; for seed in 1 2 3 4 5 6 7 8 9 10; do \
		$(GO) test -C internal/integration ./chaos -count=1 -timeout 2h -v -run 'TestIntents|TestSigned' -chaos.seed=$$seed -chaos.time=8m -chaos.faults=1000; \
	done
	$(MAKE) browser

# The console in a real Chromium, which is found or installed: ten incidents, and every page.
browser:
	$(GO) test -C internal/browser -count=1 -timeout 30m -v ./...

# The pictures of the console in docs/operations.md.
docs:
	mkdir -p docs/console
	$(GO) test -C internal/browser -count=1 -run TestPages -args -browser.docs="$(CURDIR)/docs/console"

# Breaks the code on purpose, one way at a time; the test named for each must fail.
mutants:
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
	$(GO) test ./... -run '^$$' -bench . -benchmem -timeout 2h
	$(GO) test ./internal/sim -count=1 -run TestSpeedUp -v -sim.curve
	$(GO) test -C internal/bench -run '^$$' -bench . -benchtime 20000x -timeout 2h ./...
	$(GO) test -C internal/yard -run '^$$' -bench Metrics -benchtime 1x .
	$(GO) test -C internal/integration ./scale -run '^$$' -bench 'Backlog|Drain' -benchtime 1x -timeout 4h -v -scale.rows=10000000 -scale.drain=100000 -scale.runs=3
	$(GO) test -C internal/integration ./scale -run '^$$' -bench Stats -benchtime 1x -timeout 1h -v -scale.rows=900000 -scale.lanes=100000
	$(GO) test -C internal/integration ./scale -run '^$$' -bench Causes -benchtime 5x -timeout 1h -v -scale.rows=1000000 -scale.lanes=100000
	$(GO) test ./operator -run '^$$' -bench Causes -benchtime 3x -timeout 1h -v -operator.lanes=100000

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
			echo "$$pkg $$f"; $(GO) test -C $$pkg . -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x; \
		done; done
