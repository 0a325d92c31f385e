"""Writing down what Python does: scopes, staged values, their sizes, trees and specifications."""
