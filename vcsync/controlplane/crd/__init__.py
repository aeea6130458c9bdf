"""CustomResourceDefinitions and what is made of them: schemas, rules, versions, conditions, served resources."""
