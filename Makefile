# Every target has its line of help: make help.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BIN := bin/mcp-sidecar
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
FUZZTIME ?= 30s
ISOLATION ?= 10m
# The packages that hold suites of their own; the rest is the fast suite.
NPM_SUITES := servers clients conformance parts oauth

# The tests run this binary, so that they build it once.
export MCP_SIDECAR_BIN := $(CURDIR)/$(BIN)

.PHONY: help build deps test test-go test-long test-clients test-oauth check fmt vet staticcheck vuln fuzz bench bench-isolation dev clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build bin/mcp-sidecar
	go build -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/mcp-sidecar

deps: ## install the pinned npm packages that the tests need
	@test/node/install.sh test/node

test: ## run every suite, npm's servers and clients too (under 15 minutes)
	@test/run.sh $(NPM_SUITES)

test-go: build ## run what needs no npm: go test -race ./...
	@go run ./test/suites 'go: -race ./...'

test-long: ## make test, and the suites that take longer
	@MCP_SIDECAR_LONG=1 test/run.sh $(NPM_SUITES)

test-clients: build deps ## list tools with more real clients from npm (no accounts)
	@test/node/install.sh test/clients/node
	@go run ./test/suites -limit 14m 'clients: -tags npm,clients -count=1 ./test/clients'

test-oauth: build deps ## log in at a real provider from npm, with a real browser
	@go run ./test/suites 'oauth: -tags npm -count=1 ./test/oauth'

check: fmt vet staticcheck vuln ## gofmt, vet on all platforms, staticcheck, race tests, govulncheck
	@go run ./test/suites 'race: -race ./...'

fmt: ## fail on files that gofmt would change
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); [ -z "$$out" ] || { echo "gofmt -w $$out"; exit 1; }

vet: ## go vet for linux and darwin, amd64 and arm64
	@for os in linux darwin; do for arch in amd64 arm64; do \
		echo "vet $$os/$$arch"; \
		GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go vet -tags npm,clients ./...; \
	done; done
	@for dir in test/bench test/oauth/zitadel; do echo "vet $$dir"; (cd $$dir && go vet ./...); done

# SA1019: what MCP deprecates is tested as long as agents have it.
staticcheck: ## run staticcheck, pinned
	@echo staticcheck; go run $(STATICCHECK) -checks inherit,-SA1019 -tags npm,clients ./...

vuln: ## run govulncheck, pinned; an unreachable database is said, not failed
	@echo govulncheck; out=$$(go run $(GOVULNCHECK) ./... 2>&1) && echo "$$out" | tail -3 || { \
		if grep -qiE 'fetching vulnerabilities|dial tcp|no such host|timeout|connection refused|proxyconnect|vuln.go.dev' <<< "$$out"; \
		then echo "govulncheck: the vulnerability database cannot be reached, nothing was checked"; \
		else echo "$$out"; exit 1; fi; }

fuzz: ## fuzz every target for FUZZTIME (30s) each
	@test/fuzz.sh $(FUZZTIME)

bench: build ## measure against a plain reverse proxy; prints the table of docs/BENCHMARKS.md
	@test/bench/run.sh

bench-isolation: build ## measure healthy servers' calls beside failing ones (ISOLATION=3m is shorter)
	go test -count=1 -timeout 2h -v -run '^$$' -bench '^BenchmarkIsolation$$' -benchtime $(ISOLATION) ./test/faults

dev: ## run the sidecar with the demo servers, without a token, debug log
	go run ./cmd/mcp-sidecar serve --demo --insecure-no-auth -v

clean: ## remove what the build and the tests made
	rm -rf bin test/bench/out test/node/node_modules test/clients/node/node_modules
