// Package rules holds what the whole project promises about its own shape: who
// may import whom, which packages know no clock, that each package says what it
// is for. It owns no code but tests; nothing calls it but `go test`.
//
// A rule reads the source, it never builds or runs it. Each stands beside
// planted violations that it must find and exceptions that it must let pass, so
// a rule cannot go blind unnoticed.
//
// A new package goes into the table in imports_test.go; until it does, the rules
// fail.
package rules
