// Package client is the official client.
package client
