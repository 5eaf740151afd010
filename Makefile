SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
GOLANGCI_LINT_VERSION := v2.15.0
OAPI_CODEGEN := github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen
OAPI_CODEGEN_VERSION := v2.8.2

# What `make generate` writes, below OUT. `make verify` writes it somewhere else and compares.
# (oapi-codegen's configs name their output, relative to where it runs.)
GENERATED := internal/api/wire/wire.gen.go internal/api/api.gen.go internal/api/client/client.gen.go docs/state-machine.md docs/errors.md docs/keys.md lua/border.gen.go api.txt
OUT := .

# bench/peers has the programs of other libraries, which nothing but `make bench-peers` runs: no test links them.
MODULES := . bench bench/peers

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Try DTS: everything in one process on an embedded Redis, with a demo
	go run ./cmd/dtsd dev --demo

.PHONY: quick
quick: ## Vet all, and test what has changed and what imports it, without the race detector, clusters, processes of DTS and chaos
	scripts/ensure-test-tools
	scripts/quick

# Tests wait more than they compute, so more of them run at once than there are processors. `make lint` runs go vet on
# everything; each package of tests that hangs for 45 minutes fails with the stacks of its goroutines.
TEST := go test -vet=off -timeout 45m -parallel
# The packages that wait longest come first, so that the others run beside them.
ALL := ./test ./test/page ./test/model ./internal/scheduler ./internal/control ./...

.PHONY: test
test: ## Run all that a change must pass, but for the race detector
	scripts/ensure-test-tools
	$(TEST) 8 $(ALL)
	cd bench && $(TEST) 8 ./...

# The race detector takes three times as long, so that half as many tests run at once: a node on an embedded Redis may take
# two processors by itself. It watches the short tests here, and all of them in the long form.
# It leaves out the Lua interpreter of the embedded Redis: each run of a script has an interpreter of its own. To watch it
# takes a fifth of the processor time of tests in virtual time. Without notes for debuggers, compiling takes an eighth less.
# Package test/process builds programs with the same flags, so that Go's cache has what both need.
RACE := -race -gcflags=all=-dwarf=false '-gcflags=github.com/yuin/gopher-lua/...=-dwarf=false -race=false'
# Those with goroutines: not the command line, which waits for one answer at a time, and what only computes.
RACED := . ./dtstest ./internal/app ./internal/api ./internal/batch ./internal/calls ./internal/cluster ./internal/control \
	./internal/events ./internal/fresh ./internal/handover ./internal/lease ./internal/queue ./internal/redisx/... \
	./internal/remote ./internal/scheduler ./internal/store/... ./internal/telemetry ./internal/web ./internal/worker/...

.PHONY: race
race: ## Run the short tests with the race detector
	scripts/ensure-test-tools
	$(TEST) 4 $(RACE) -short $(RACED)

.PHONY: test-long
test-long: ## Run all tests in full, with the race detector, for an hour: fleets through failovers and upgrades, weeks of time travel
	scripts/ensure-test-tools
	TEST_LONG=1 $(TEST) 8 $(RACE) $(ALL)

# Rounds under faults; test/chaos says which variables choose among them.
CHAOS := go test $(RACE) -vet=off -count=1 -v -run TestChaos

.PHONY: chaos
chaos: ## Run fleets under faults on every kind of Redis for 5 minutes, and check every promise; SEED=N repeats a round
	scripts/ensure-test-tools
	CHAOS_TIME=$${CHAOS_TIME-5m} $(CHAOS) -timeout $${CHAOS_TIMEOUT-0} ./test/chaos

.PHONY: chaos-long
chaos-long: ## The same until it is stopped; what explains a broken promise is kept
	scripts/ensure-test-tools
	CHAOS_TIME=0s $(CHAOS) -timeout 0 ./test/chaos

# The picture of a page depends on the fonts of the machine: those in the repository were made with Debian's fonts-inter,
# fonts-dejavu-core and fonts-noto-cjk.
.PHONY: screenshots
screenshots: ## Take the pictures of the page for docs/images, of an installation made up in virtual time
	scripts/ensure-test-tools
	@pages=$$(mktemp -d); trap 'rm -rf "$$pages"' EXIT; mkdir -p docs/images; \
	for package in ./internal/web ./test/page; do \
		SCREENSHOTS="$$pages" go test -count=1 -v -run '^TestScreenshots$$' $$package; \
	done

.PHONY: lint
lint: ## Run go vet, golangci-lint (built into .bin at the first time) and the rules for new tests and files
	scripts/lint-new
	scripts/ensure-tool $(GOLANGCI_LINT) $(GOLANGCI_LINT_VERSION)
	for module in $(MODULES); do \
		(cd $$module && go vet ./... && $(CURDIR)/.bin/golangci-lint run ./...); \
	done

.PHONY: generate
generate: ## Write the generated files: API types, server and client, the Go side of the Lua scripts, docs/keys.md, docs/errors.md, docs/state-machine.md and api.txt
	scripts/ensure-tool $(OAPI_CODEGEN) $(OAPI_CODEGEN_VERSION)
	mkdir -p $(OUT)/docs $(OUT)/lua
	for config in internal/api/wire/wire.cfg.yaml internal/api/server.cfg.yaml internal/api/client/client.cfg.yaml; do \
		(cd $(OUT) && $(CURDIR)/.bin/oapi-codegen -config $(CURDIR)/$$config $(CURDIR)/internal/api/openapi.yaml); \
	done
	go run ./internal/task/machinedoc > $(OUT)/docs/state-machine.md
	go run ./lua/generate keys > $(OUT)/docs/keys.md
	go run ./lua/generate go > $(OUT)/lua/border.gen.go.new
	mv $(OUT)/lua/border.gen.go.new $(OUT)/lua/border.gen.go
	go run ./internal/edge/errordoc > $(OUT)/docs/errors.md.new
	mv $(OUT)/docs/errors.md.new $(OUT)/docs/errors.md
	go run ./test/apitext . dtstest > $(OUT)/api.txt.new
	mv $(OUT)/api.txt.new $(OUT)/api.txt

.PHONY: verify
verify: ## Check that generated files, go.mod and formatting are as they should be; changes nothing
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(MAKE) --no-print-directory generate OUT="$$fresh"; \
	for file in $(GENERATED); do \
		diff -u "$$file" "$$fresh/$$file" || { echo "$$file is not up to date: run 'make generate' and commit it"; exit 1; }; \
	done
	for module in $(MODULES); do (cd $$module && go mod tidy -diff); done
	@unformatted=$$(gofmt -l $$(go list -f '{{.Dir}}' ./... | sort -u) bench); \
	if [ -n "$$unformatted" ]; then echo "Not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi

.PHONY: bench
bench: ## Measure DTS beside bare asynq (45 minutes, nothing else should run) and write bench/RESULTS.md
	scripts/ensure-test-tools
	cd bench && go run . -results RESULTS.md

.PHONY: bench-smoke
bench-smoke: ## Measure some rows in a short form, and fail if a ratio is far below what it was, or a task costs Redis more
	scripts/ensure-test-tools
	cd bench && go run . -smoke -rounds 2

# Without Node or PostgreSQL, it says which peer it leaves out, and how to get what is missing.
.PHONY: bench-peers
bench-peers: ## Measure DTS beside asynq, BullMQ and River as whole programs (nothing else should run) and write bench/PEERS.md
	scripts/ensure-test-tools
	cd bench && go run . -peers -results PEERS.md

.PHONY: build
build: ## Build dtsd and dtsctl into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...
