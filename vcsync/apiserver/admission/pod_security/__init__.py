"""The admission plug-in PodSecurity."""
