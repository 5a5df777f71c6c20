// Package deploy holds what an operator installs beside the binary: the systemd
// unit, the container file, kernel settings, Prometheus rules and a dashboard
// for Grafana. docs/operations.md says how.
//
// It owns these files and has no code. Its tests hold them against the real
// binary: it is built as the container file builds it, run under the limits of
// the unit as far as that goes without systemd, and asked for the metrics that
// rules and dashboard speak of. Nothing imports it.
package deploy
