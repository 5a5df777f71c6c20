// Package admin is the HTTP side of a node, for people and monitoring:
// health, readiness, metrics, a JSON status, profiles and a dashboard page.
//
// It owns the admin listener's connections, the names of all ticketing_*
// metrics and the shape of /status. It only reads what the loops publish
// through a Source: it never touches a session, a shard or a lock, never makes
// a loop wait, and changes nothing in the server it watches. It asks for no
// password, so it belongs on a loopback or private address.
//
// cmd/ticketing starts it beside the lock server; its status command decodes
// the Status type of this package.
package admin
