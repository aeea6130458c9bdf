"""The rules of CustomResourceDefinitions and of the custom resources that they define."""
