// Command ticketing is the lock server and its command line in one binary.
//
// This package owns what stands between a person or a service manager and the
// packages that do the work: the commands and their settings (flags and
// environment variables, checked before anything is started), exit codes,
// signals, systemd's notifications, and the limits the process sets itself. It
// knows no frame, no lock and no socket of a client: package loop serves,
// internal/admin watches, package client asks for the client commands. What
// ticketing lock runs, with its signals and its terminal, is owned here
// (lockwatch.go). docs/operations.md is its guide.
//
// Each command is a struct in a file of its own, listed in cli.go, with a
// method Run(context.Context, *process) error. An error decides the exit code
// by its type (exit.go).
package main
