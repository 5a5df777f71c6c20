# `make` prints what there is to make.

FUZZTIME  ?= 30s
BENCHTIME ?= 1s
SOAK      ?= 10m
CHAOS     ?= 5m
SEED      ?=
ROUNDS    ?= 10

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# What tests need beside Go, as command:debian-package.
DEBIAN := chromium:chromium sqlite3:sqlite3 pg_lsclusters:postgresql nft:nftables ss:iproute2 mkfs.ext4:e2fsprogs \
	redis-server:redis-server memcached:memcached etcd:etcd-server systemd-analyze:systemd gnutls-cli:gnutls-bin openssl:openssl

# Packages by what is in them: files for debug builds, benchmarks; and the files
# with tests that count allocations, which the race detector changes.
packages = $(addprefix ./,$(sort $(dir $(shell grep -rlE --include='*.go' '$(1)' . | sed 's|^\./||'))))
DEBUG   = $(call packages,^//go:build debug$$)
ALLOCS  = $(shell grep -rlE --include='*_test.go' 'AllocsPerRun|[mM]allocs' .)
BENCHES = $(call packages,^func Benchmark)

.NOTPARALLEL:
.PHONY: help run cluster build test deps vet race e2e debug allocs bench-once bench compare-once compare profile \
	compare-client soak chaos chaos-broken failover fuzz clean

help: ## print this
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

run: build ## run a server on 127.0.0.1:7400, its dashboard on http://127.0.0.1:7401
	exec bin/ticketing serve

cluster: build ## run three nodes of a cluster on 127.0.1.1 to 127.0.1.3, data in cluster-data
	exec deploy/cluster/local.sh

build: ## build bin/ticketing
	go build -ldflags '$(LDFLAGS)' -o bin/ticketing ./cmd/ticketing

test: deps build vet race e2e debug allocs bench-once compare-once ## check everything: build, vet, race, e2e, debug, allocs, bench-once, compare-once

vet: ## gofmt, go vet and staticcheck, of debug builds too
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "not gofmt-ed: $$bad"; exit 1; }
	go build ./...
	go vet ./...
	go vet -tags debug $(DEBUG)
	go tool staticcheck ./...
	go tool staticcheck -tags debug $(DEBUG)

race: ## all tests but e2e, and fuzz seeds, with the race detector; many packages mostly wait, so four at a time
	go test -vet=off -race -p 4 $$(go list ./... | grep -v /e2e$$)

e2e: ## the black-box tests, with nothing beside them, for they judge times
	go test -vet=off -race ./internal/e2e

debug: ## the tests of packages with debug checks, with these checks
	go test -vet=off -race -tags debug $(DEBUG)

allocs: ## the tests that count allocations, without the race detector
	go test -vet=off -run "^($$(grep -hoE '^func Test\w+' $(ALLOCS) | cut -c6- | paste -sd'|'))$$" $(sort $(dir $(ALLOCS)))

bench-once: ## each benchmark, once, to see that it works
	go test -vet=off -run '^$$' -bench . -benchtime 1x $(BENCHES)

bench: ## all benchmarks, BENCHTIME (1s) each
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $(BENCHES)

compare-once: ## the comparison's own tests: each server and driver, for some milliseconds
	cd perf/compare && go vet ./... && go test ./...

compare: deps build ## beside Redis, memcached, etcd and the bare loop; rewrites docs/performance.md. QUICK=1: prints only
	cd perf/compare && go build -o ../../bin/compare . && cd ../.. && bin/compare $(if $(QUICK),-quick)

profile: build ## CPU, block, mutex and heap profiles of a server under load, into PROFILES (bin/profiles); LOOPS=1
	cd perf/compare && go build -o ../../bin/compare . && cd ../.. && \
		bin/compare -profiles $(or $(PROFILES),bin/profiles) $(if $(LOOPS),-loops $(LOOPS))

compare-client: build ## the Go client beside go-redis, in turns (needs redis-server)
	cd perf/goredis && go build -o ../../bin/goredis . && cd ../.. && bin/goredis -ticketing bin/ticketing

chaos: ## break a cluster under load for CHAOS (5m) and judge what clients saw; SEED=n repeats what is drawn
	go run ./internal/chaos/run -for $(CHAOS) $(if $(SEED),-seed $(SEED))

chaos-broken: ## the same with known mistakes built in, one after another: each must be found
	go run ./internal/chaos/run -broken -for $(if $(filter 5m,$(CHAOS)),25s,$(CHAOS)) $(if $(SEED),-seed $(SEED))

failover: ## kill and move the leader under load, ROUNDS (10) times, and say how long nothing was granted
	go run ./internal/chaos/run -failover $(ROUNDS)

soak: ## hostile load on a real server for SOAK (10m), and each race at the clock's edges a million times
	SOAK=$(SOAK) go test -count=1 -v -timeout 0 -run 'TestEdges|TestSocketEdges' ./shard ./loop
	SOAK=$(SOAK) go test -count=1 -v -timeout 0 ./internal/soak

fuzz: ## each fuzz target for FUZZTIME (30s), one after another
	@grep -rnoE --include='*_test.go' '^func Fuzz\w+' . | sed -E 's|/[^/]*:[0-9]+:func | |' | \
	while read -r package target; do \
		echo "$$package $$target"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s "$$package" || exit; \
	done

deps: ## install the Debian packages that tests need, where that is possible
	@missing=; for p in $(DEBIAN); do command -v $${p%:*} >/dev/null || missing="$$missing $${p#*:}"; done; \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" = 0 ] && { apt-get -qq update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$missing; } >/dev/null 2>&1; \
	then echo "installed:$$missing"; \
	else echo "could not install:$$missing; tests that need it are skipped"; fi

clean: ## remove what was built
	rm -rf bin
